// SPDX-License-Identifier: MIT
/* Values that count their constructors, in containers of the standard library and in one of their own. */
#include <deque>
#include <memory>
#include <vector>

#include "count.h"

COUNTED(make)
COUNTED(value)
COUNTED(push)
COUNTED(at)
COUNTED(reset)

struct Value {
	unsigned x;

	unsigned value() const
	{
		COUNT(value);
		return x + 1;
	}
};

static inline Value make(unsigned x)
{
	COUNT(make);
	return Value{ x * x };
}

template <typename T> class Stack
{
	std::unique_ptr<T[]> items{ new T[4] };
	size_t n = 0, capacity = 4;

      public:
	void push(T v)
	{
		COUNT(push);
		if (n == capacity) {
			std::unique_ptr<T[]> more(new T[2 * capacity]);

			for (size_t i = 0; i < n; i++)
				more[i] = at(i);
			items = std::move(more);
			capacity *= 2;
		}
		items[n++] = v;
	}
	T &at(size_t i)
	{
		COUNT(at);
		if (__builtin_expect(i >= n, 0))
			abort();
		return items[i];
	}
	void reset()
	{
		COUNT(reset);
		n = 0;
	}
	size_t size() const
	{
		return n;
	}
};

APART unsigned run(unsigned n)
{
	Stack<Value> s;
	std::vector<Value> v;
	std::deque<Value> d;
	unsigned sum = 0;

	for (unsigned i = 0; i < n; i++) {
		v.push_back(make(i));
		if (i & 1)
			d.push_front(v.back());
		s.push(v.back());
	}
	for (const Value &x : v)
		sum += x.value();
	while (!d.empty()) {
		sum ^= d.back().value();
		d.pop_back();
	}
	for (size_t i = 0; i < s.size(); i++)
		sum += s.at(i).value();
	s.reset();
	s.push(make(sum));
	return s.at(0).value();
}

int main()
{
	for (unsigned i = 0; i < 40; i++)
		sink = run(i);
	SHOW(make);
	SHOW(value);
	SHOW(push);
	SHOW(at);
	SHOW(reset);
}
