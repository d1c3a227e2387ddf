// SPDX-License-Identifier: MIT
// C++ exceptions: thrown through frames with destructors, caught and thrown again, by type, out of virtual functions.
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

unsigned long ended;

struct guard {
	~guard()
	{
		ended++;
	}
};

struct shape {
	virtual ~shape() = default;
	virtual unsigned long area(unsigned n) const = 0;
};

struct square : shape {
	unsigned long area(unsigned n) const override
	{
		if (n % 3 == 0)
			throw std::runtime_error("three");
		return n * n;
	}
};

struct circle : shape {
	unsigned long area(unsigned n) const override
	{
		if (n % 5 == 0)
			throw static_cast<int>(n);
		return n * 3;
	}
};

__attribute__((noinline)) unsigned long down(const shape &s, unsigned n, unsigned depth)
{
	guard g;

	return depth ? down(s, n, depth - 1) + 1 : s.area(n);
}

__attribute__((noinline)) unsigned long caught(const shape &s, unsigned n)
{
	try {
		try {
			return down(s, n, n % 7);
		} catch (const std::runtime_error &e) {
			ended += std::string(e.what()).size();
			throw;
		}
	} catch (int value) {
		return static_cast<unsigned long>(value);
	} catch (const std::exception &) {
		return 1;
	}
}

} // namespace

int main(int argc, char **argv)
{
	unsigned long size = argc > 1 ? std::strtoul(argv[1], nullptr, 0) : 12, sum = 0;
	std::vector<shape *> shapes{ new square, new circle };

	for (unsigned n = 1; n <= size; n++)
		for (const shape *s : shapes)
			sum += caught(*s, n);
	std::printf("%lx\n", sum + ended);
	for (shape *s : shapes)
		delete s;
}
