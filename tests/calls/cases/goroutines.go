// SPDX-License-Identifier: MIT
// Goroutines that wait for each other, grow their stacks, end, defer, panic and recover.
package main

import (
	"fmt"
	"runtime"
)

//go:noinline
func leaf(n int) int {
	return n*3 + 1
}

//go:noinline
func deep(n int) int {
	var room [64]byte
	if n == 0 {
		return leaf(int(room[0]))
	}
	return deep(n-1) + int(room[n%64]) + 1
}

//go:noinline
func produce(to chan<- int, n int) {
	for i := 0; i < n; i++ {
		to <- leaf(i)
	}
	close(to)
}

//go:noinline
func transform(from <-chan int, to chan<- int) {
	for v := range from {
		to <- v + deep(v%40)
	}
	close(to)
}

//go:noinline
func yields(n int, done chan<- bool) {
	for i := 0; i < n; i++ {
		runtime.Gosched()
		leaf(i)
	}
	done <- true
}

//go:noinline
func panics(n int) int {
	if n == 0 {
		panic("enough")
	}
	return panics(n-1) + 1
}

//go:noinline
func recovers(n int) (ret int) {
	defer func() {
		if r := recover(); r != nil {
			ret = leaf(n)
		}
	}()
	return panics(n)
}

func main() {
	runtime.GOMAXPROCS(1)
	first, second, done := make(chan int), make(chan int), make(chan bool)
	go produce(first, 12)
	go transform(first, second)
	for i := 0; i < 3; i++ {
		go yields(4, done)
	}
	sum := 0
	for v := range second {
		sum += v
	}
	for i := 0; i < 3; i++ {
		<-done
	}
	for i := 0; i < 4; i++ {
		sum += recovers(i)
	}
	sum += deep(2000)
	fmt.Println(sum)
}
