/* SPDX-License-Identifier: MIT */
/* A price is computed by a virtual function; one kind of option needs a simulation. */
#include <memory>
#include <vector>

#include "planted.h"

struct option {
	virtual ~option() = default;
	virtual uint32_t price(uint32_t rate) const = 0;
};

struct plain_option : option {
	apart uint32_t price(uint32_t rate) const override
	{
		return compute(rate, 120);
	}
};

struct asian_option : option {
	apart uint32_t price(uint32_t rate) const override
	{
		uint32_t sum = 0;

		for (uint32_t path = 0; path < 50; path++)
			sum += simulate(rate + path);
		return sum;
	}
	apart uint32_t simulate(uint32_t seed) const
	{
		return compute(seed, 90);
	}
};

static apart uint32_t quote(const option &o, uint32_t rate)
{
	return compute(rate, 100) + o.price(rate);
}

int main()
{
	std::vector<std::unique_ptr<option>> book;

	planted("quote", "asian_option::price");
	for (int i = 0; i < 100; i++)
		if (i == 60)
			book.push_back(std::make_unique<asian_option>());
		else
			book.push_back(std::make_unique<plain_option>());
	for (const auto &o : book)
		used(quote(*o, 3));
	return 0;
}
