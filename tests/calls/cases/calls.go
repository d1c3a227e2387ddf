// SPDX-License-Identifier: MIT
// All kinds of calls in Go: methods, interfaces, closures, defers in loops, recursion both ways.
package main

import (
	"errors"
	"fmt"
	"sort"
)

type shape interface{ area(n int) int }
type square struct{ side int }
type circle struct{ radius int }

//go:noinline
func (s square) area(n int) int { return s.side*s.side + n }

//go:noinline
func (c *circle) area(n int) int {
	if n == 0 {
		return c.radius
	}
	return c.area(n-1) + 1
}

//go:noinline
func even(n int) bool {
	if n == 0 {
		return true
	}
	return odd(n - 1)
}

//go:noinline
func odd(n int) bool {
	if n == 0 {
		return false
	}
	return even(n - 1)
}

//go:noinline
func apply(f func(int) int, n int) int { return f(n) + 1 }

//go:noinline
func deferred(n int) (sum int) {
	for i := 0; i < n; i++ {
		defer func(v int) { sum += v }(i)
	}
	return n
}

//go:noinline
func fails(n int) (ret int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New(fmt.Sprint(r))
		}
	}()
	if n%2 == 1 {
		panic(n)
	}
	return []int{1, 2, 3}[n], nil
}

func main() {
	shapes := []shape{square{3}, &circle{4}}
	sum := 0
	for i := 0; i < 6; i++ {
		for _, s := range shapes {
			sum += s.area(i)
		}
		if even(i) {
			sum += apply(func(v int) int { return v * sum }, i)
		}
		sum += deferred(i % 3)
		if v, err := fails(i); err == nil {
			sum += v
		}
	}
	list := []int{5, 2, 8, 1}
	sort.Slice(list, func(a, b int) bool { return list[a] < list[b] })
	fmt.Println(sum%1000, list)
}
