/* SPDX-License-Identifier: MIT */
/* An order book: templates, virtual calls, containers, strings and exceptions. Each process gets other orders. */
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include "program.h"

namespace market
{
struct Order {
	std::string owner;
	int price;
	unsigned amount;
};

class Rule
{
      public:
	virtual ~Rule() = default;
	virtual bool allows(const Order &o) const = 0;
};

class AmountRule : public Rule
{
      public:
	__attribute__((noinline)) bool allows(const Order &o) const override
	{
		return o.amount % 97 != 0;
	}
};

class PriceRule : public Rule
{
      public:
	__attribute__((noinline)) bool allows(const Order &o) const override
	{
		return o.price < 140;
	}
};

template <typename Orders> class Book
{
	std::map<int, Orders> levels;

      public:
	__attribute__((noinline)) void add(const Order &o)
	{
		levels[o.price].push_back(o);
	}

	__attribute__((noinline)) unsigned match(int price, unsigned amount)
	{
		unsigned done = 0;

		for (auto l = levels.begin(); l != levels.end() && l->first <= price && done < amount;) {
			while (!l->second.empty() && done < amount) {
				done += l->second.back().amount;
				l->second.pop_back();
			}
			l = l->second.empty() ? levels.erase(l) : std::next(l);
		}
		return done;
	}
};

class Engine
{
	Book<std::vector<Order>> book;
	std::vector<std::unique_ptr<Rule>> rules;

      public:
	Engine()
	{
		rules.push_back(std::make_unique<AmountRule>());
		rules.push_back(std::make_unique<PriceRule>());
	}

	__attribute__((noinline)) void check(const Order &o) const
	{
		for (const auto &r : rules)
			if (!r->allows(o))
				throw std::runtime_error("refused");
	}

	__attribute__((noinline)) unsigned submit(const Order &o)
	{
		check(o);
		book.add(o);
		return book.match(o.price - 10, o.amount) + planted_work(o.amount) % 2;
	}
};
} // namespace market

int main(int argc, char **argv)
{
	unsigned long n = size_of(argc, argv, 1500), refused = 0;
	uint32_t state = (uint32_t)getpid() * 2654435761u | 1;
	market::Engine engine;
	uint64_t sum = 0;

	for (unsigned long i = 0; i < n; i++) {
		market::Order o = { "trader number " + std::to_string(next_random(&state) % 100),
				    100 + (int)(next_random(&state) % 41), 1 + next_random(&state) % 50 };

		try {
			sum += engine.submit(o);
		} catch (const std::runtime_error &) {
			refused++;
		}
	}
	return result(sum + refused);
}
