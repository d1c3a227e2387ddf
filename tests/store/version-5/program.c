/* Calls, tail calls, inlined functions, system calls and a recursion, without a library. */
static volatile unsigned sum;

static long call(long number, long a, long b, long c)
{
	register long x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c, x8 __asm__("x8") = number;

	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x1), "r"(x2), "r"(x8) : "memory");
	return x0;
}

static inline __attribute__((always_inline)) void add(unsigned n)
{
	sum += n;
}

static inline __attribute__((always_inline)) void add_twice(unsigned n)
{
	add(n);
	add(n + 1);
}

__attribute__((noinline)) void leaf(unsigned n)
{
	add_twice(n);
	if (n & 1)
		add(n);
}

__attribute__((noinline)) void last(unsigned n)
{
	sum += n;
}

__attribute__((noinline)) void tail(unsigned n)
{
	leaf(n);
	last(n + 1);
}

__attribute__((noinline)) unsigned recurse(unsigned n)
{
	return n ? recurse(n - 1) + sum : 0;
}

void _start(void)
{
	long time[] = { 0, 1000000 };

	for (unsigned i = 0; i < 20; i++) {
		leaf(i);
		tail(i);
		sum += recurse(i % 4);
	}
	call(64, 1, (long)"done\n", 5);
	call(101, (long)time, 0, 0);
	for (unsigned i = 0; i < 20; i++)
		tail(i);
	call(94, 0, 0, 0);
}
