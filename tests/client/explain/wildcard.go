// SPDX-License-Identifier: MIT
// A query with a wildcard becomes one query for each name that it can mean.
package main

import (
	"fmt"
	"runtime/debug"
	"strings"
)

var index = map[string]int{}

//go:noinline
func expand(query string) []string {
	var queries []string
	for a := 'a'; a <= 'z'; a++ {
		for b := 'a'; b <= 'f'; b++ {
			queries = append(queries, strings.Replace(query, "*", string(a)+string(b), 1))
		}
	}
	return queries
}

//go:noinline
func find(query string) int {
	return index[query] + len(strings.ToUpper(query))
}

//go:noinline
func search(query string) int {
	queries := []string{query}
	if strings.Contains(query, "*") {
		queries = expand(query)
	}
	best := 0
	for _, q := range queries[:1] {
		best += find(q)
	}
	return best
}

func main() {
	debug.SetGCPercent(-1)
	fmt.Println("function: main.search")
	fmt.Println("cause: main.expand")
	for i := 0; i < 100; i++ {
		index[fmt.Sprintf("name%d", i)] = i
	}
	sum := 0
	for i := 0; i < 150; i++ {
		query := fmt.Sprintf("name%d", i)
		if i == 101 {
			query = "name*"
		}
		sum += search(query)
	}
	if sum == 1 {
		fmt.Println(sum)
	}
}
