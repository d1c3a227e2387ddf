/* SPDX-License-Identifier: MIT */
/* An order that is out of range is rejected by an exception. */
#include <stdexcept>

#include "planted.h"

static apart void reject(uint32_t price)
{
	if (price > 900)
		throw std::out_of_range("price");
}

static apart uint32_t match_order(uint32_t price)
{
	reject(price);
	return compute(price, 150);
}

static apart uint32_t submit(uint32_t price)
{
	try {
		return match_order(price);
	} catch (const std::exception &) {
		return 0;
	}
}

int main()
{
	planted("submit", "reject");
	for (uint32_t i = 0; i < 300; i++)
		used(submit(i == 217 ? 999 : i));
	return 0;
}
