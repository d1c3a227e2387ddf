# SPDX-License-Identifier: MIT
"""Python's perf trampolines: each function is called through code in memory of no file, which calls the interpreter."""


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def numbers(n):
    for i in range(n):
        yield fib(i)


def fails(n):
    if n % 3 == 0:
        raise ValueError(n)
    return n


def caught(n):
    try:
        return fails(n)
    except ValueError:
        return 0


print(sum(numbers(10)), sum(map(caught, range(30))), sorted(range(20), key=lambda i: i * 7 % 20)[:3])
