// SPDX-License-Identifier: MIT
/* A template of which a method is inlined, with a map, exceptions and a lambda in it: an order book. */
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "count.h"

COUNTED(add)
COUNTED(submit)
COUNTED(match)
COUNTED(validate)

namespace acme
{
struct Order {
	unsigned id;
	double price;
	unsigned quantity;
};

template <typename Price> class OrderBook
{
	std::map<Price, std::vector<Order>> levels;

      public:
	void add(Price price, const Order &o)
	{
		COUNT(add);
		if (o.quantity % 13 == 12)
			throw std::runtime_error("order " + std::to_string(o.id) + " is refused");
		levels[price].push_back(o);
	}

	unsigned match(Price price)
	{
		unsigned n = 0;

		COUNT(match);
		for (auto &level : levels) {
			if (level.first > price)
				break;
			n += (unsigned)level.second.size();
		}
		return n;
	}
};

template <typename Price> class MatchingEngine
{
	OrderBook<Price> book;
	unsigned refused = 0;

	static void validate(const Order &o)
	{
		COUNT(validate);
		if (!o.quantity)
			throw std::invalid_argument("nothing is ordered");
	}

      public:
	void submit(Price price, Order o)
	{
		COUNT(submit);
		validate(o);
		auto accept = [&] {
			book.add(price, o);
			sink = book.match(price);
		};
		accept();
	}

	unsigned run(unsigned n)
	{
		for (unsigned i = 0; i < n; i++) {
			try {
				submit((double)(i * 7 % 31), Order{ i, 1.0, i % 29 });
			} catch (const std::exception &e) {
				refused++;
			}
		}
		return refused;
	}
};
} // namespace acme

int main()
{
	acme::MatchingEngine<double> engine;

	sink = engine.run(200);
	SHOW(add);
	SHOW(submit);
	SHOW(match);
	SHOW(validate);
}
