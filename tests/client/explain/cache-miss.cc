/* SPDX-License-Identifier: MIT */
/* Every twelfth page is not in the cache, and is unpacked. */
#include <cstring>

#include "planted.h"

namespace pages
{

struct page {
	uint32_t number;
	uint8_t bytes[256];
};

class cache
{
      public:
	const page &get(uint32_t number)
	{
		page &slot = slots[number % 16];

		if (slot.number != number)
			load_page(number, slot);
		return slot;
	}

      private:
	apart void unpack(page &to)
	{
		for (unsigned i = 0; i < sizeof(to.bytes); i++)
			to.bytes[i] = (uint8_t)compute(to.number + i, 12);
	}
	apart void load_page(uint32_t number, page &to)
	{
		to.number = number;
		unpack(to);
	}
	page slots[16];
};

} // namespace pages

static pages::cache cache;

static apart uint32_t draw_tile(uint32_t number)
{
	const pages::page &p = cache.get(number);

	return compute(p.bytes[number % 256], 300);
}

int main()
{
	planted("draw_tile", "load_page");
	for (uint32_t i = 0; i < 240; i++)
		used(draw_tile(i / 12 + 100));
	return 0;
}
