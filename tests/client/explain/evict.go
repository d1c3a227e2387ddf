// SPDX-License-Identifier: MIT
// A cache that is full evicts its oldest entries, which one request has to do for all.
package main

import (
	"fmt"
	"runtime/debug"
)

type cache struct {
	entries []uint32
	limit   int
}

//go:noinline
func (c *cache) evict() {
	kept := c.entries[:0]
	for _, entry := range c.entries {
		if mix(entry)%4 == 0 {
			kept = append(kept, entry)
		}
	}
	c.entries = kept
}

//go:noinline
func mix(n uint32) uint32 {
	for i := 0; i < 20; i++ {
		n = n*2654435761 + 1
	}
	return n
}

//go:noinline
func (c *cache) put(entry uint32) {
	if len(c.entries) == c.limit {
		c.evict()
	}
	c.entries = append(c.entries, entry)
}

//go:noinline
func handle(c *cache, n uint32) uint32 {
	key := mix(n)
	c.put(key)
	return mix(key)
}

func main() {
	debug.SetGCPercent(-1)
	fmt.Println("function: main.handle")
	fmt.Println("cause: main.(*cache).evict")
	c := &cache{entries: make([]uint32, 0, 512), limit: 256}
	sum := uint32(0)
	for i := uint32(0); i < 300; i++ {
		sum += handle(c, i)
	}
	if sum == 1 {
		fmt.Println(sum)
	}
}
