package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "recipetable:", err)
		os.Exit(1)
	}
}

func run(args []string, results io.Reader) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: go test -json … | recipetable FILE")
	}
	page, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	counts, err := read(results)
	if err != nil {
		return err
	}
	text, err := replace(string(page), counts.table())
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return os.WriteFile(args[0], []byte(text), 0o600)
}

// The lines between which the table stands.
const (
	begin = "<!-- what the conformance suites ran: \"make table\" -->\n"
	end   = "<!-- end of the table -->\n"
)

// replace puts the table in the place of the one on the page.
func replace(page, table string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("has no place for the table, which is between %q and %q", begin, end)
	}
	return before + begin + table + end + after, nil
}

// engines are the columns: the title, and the package whose tests ran.
var engines = []struct{ title, dir string }{
	{"etcd", "/etcd"}, {"ZooKeeper", "/zk"}, {"memory", "/recipes/memory"},
}

// counts are the tests that passed, by recipe and engine.
type counts map[string]map[string]int

// event is a line of the output of "go test -json".
type event struct {
	Action, Package, Test string
}

// read counts. It fails if a test did.
func read(results io.Reader) (counts, error) {
	c := counts{}
	lines := bufio.NewScanner(results)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		if e.Action == "fail" {
			return nil, fmt.Errorf("%s %s has failed", e.Package, e.Test)
		}
		recipe := recipeOf(e.Test)
		if e.Action != "pass" || recipe == "" {
			continue
		}
		for _, engine := range engines {
			if strings.HasSuffix(e.Package, engine.dir) {
				if c[recipe] == nil {
					c[recipe] = map[string]int{}
				}
				c[recipe][engine.title]++
			}
		}
	}
	return c, lines.Err()
}

// table is the table in the form that pages of documentation have.
func (c counts) table() string {
	var b strings.Builder
	b.WriteString("| recipe |")
	for _, engine := range engines {
		fmt.Fprintf(&b, " %s |", engine.title)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(engines)) + "\n")
	for _, r := range recipes {
		if c[r.title] == nil {
			continue
		}
		fmt.Fprintf(&b, "| %s |", r.title)
		for _, engine := range engines {
			if n := c[r.title][engine.title]; n > 0 {
				fmt.Fprintf(&b, " ✓ %d tests |", n)
			} else {
				b.WriteString(" – |")
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}
