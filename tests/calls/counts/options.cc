// SPDX-License-Identifier: MIT
/* Optional values, variants and reference counts: inlined functions with a branch that is rarely taken. */
#include <memory>
#include <optional>
#include <variant>

#include "count.h"

COUNTED(find)
COUNTED(unwrap)
COUNTED(visit_one)
COUNTED(keep)
COUNTED(half)

static inline std::optional<unsigned> find(unsigned x)
{
	COUNT(find);
	if (x % 9 == 8)
		return std::nullopt;
	return x / 2;
}

static ALWAYS unsigned unwrap(const std::optional<unsigned> &o, unsigned otherwise)
{
	COUNT(unwrap);
	return o ? *o : otherwise;
}

static ALWAYS std::optional<unsigned> half(unsigned x)
{
	COUNT(half);
	if (x & 1)
		return {};
	return find(x);
}

using Either = std::variant<unsigned, double>;

static ALWAYS unsigned visit_one(const Either &e)
{
	COUNT(visit_one);
	if (const unsigned *x = std::get_if<unsigned>(&e))
		return *x;
	return (unsigned)std::get<double>(e);
}

static inline unsigned keep(const std::shared_ptr<unsigned> &p)
{
	std::shared_ptr<unsigned> mine = p;

	COUNT(keep);
	return *mine + (unsigned)mine.use_count();
}

APART unsigned run(unsigned x)
{
	std::shared_ptr<unsigned> p = std::make_shared<unsigned>(x);
	unsigned sum = unwrap(find(x), 7) + unwrap(half(x), 1);

	sum += visit_one(x & 2 ? Either(x) : Either(1.5 * x));
	if (auto h = half(sum))
		sum += *h + keep(p);
	else
		sum += keep(p) * 2;
	return sum;
}

int main()
{
	for (unsigned i = 0; i < 150; i++)
		sink = run(i);
	SHOW(find);
	SHOW(unwrap);
	SHOW(visit_one);
	SHOW(keep);
	SHOW(half);
}
