// Command recipetable writes the README's table of recipes and engines from what the
// conformance suites ran: it reads the output of "go test -json" and counts, for each
// recipe and engine, the tests that passed. "make table" runs it.
package main
