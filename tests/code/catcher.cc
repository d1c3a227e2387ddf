// SPDX-License-Identifier: MIT
/* For elf.test: functions that catch and functions that do not. */
#include <cstdio>

__attribute__((noinline)) void throws(int n)
{
	if (n > 1)
		throw n;
}

__attribute__((noinline)) int catches(int n)
{
	try {
		throws(n);
	} catch (int caught) {
		return caught;
	}
	return 0;
}

__attribute__((noinline)) int passes(int n)
{
	throws(n - 1);
	return n;
}

int main(int argc, char **)
{
	std::printf("%d\n", catches(argc) + passes(argc));
	return 0;
}
