// SPDX-License-Identifier: MIT
// A worker is busy with one job for long, and the channel of jobs is full in the meantime.
// may be unknown: a goroutine goes on in any thread, which cuts its call in two
package main

import (
	"fmt"
	"runtime/debug"
	"time"
)

type job struct {
	number uint32
	slow   bool
}

//go:noinline
func prepare(number uint32) uint32 {
	for i := 0; i < 100; i++ {
		number = number*2654435761 + 1
	}
	return number
}

//go:noinline
func submit(jobs chan<- job, number uint32, slow bool) {
	jobs <- job{prepare(number), slow}
}

func work(jobs <-chan job, done chan<- uint32) {
	for j := range jobs {
		if j.slow {
			time.Sleep(40 * time.Millisecond)
		}
		done <- j.number
	}
	close(done)
}

func main() {
	debug.SetGCPercent(-1)
	fmt.Println("function: main.submit")
	fmt.Println("cause: runtime.chansend")
	jobs := make(chan job, 4)
	done := make(chan uint32, 64)
	go work(jobs, done)
	sum := uint32(0)
	for i := uint32(0); i < 200; i++ {
		submit(jobs, i, i == 120)
		if i < 120 || i >= 140 {
			sum += <-done
		}
		if i == 139 {
			for late := 0; late < 20; late++ {
				sum += <-done
			}
		}
	}
	close(jobs)
	if sum == 1 {
		fmt.Println(sum)
	}
}
