//go:build linux

package check_test

import "testing"

func TestLatches(t *testing.T) {
	t.Parallel()
	tryAll(t, map[string]trial{
		"a barrier": {nil, `
			1 a.1 1 called barrier b id=set
			2 a.1 1 granted barrier b id=set
			3 b.1 1 called passer b
			4 a.1 2 called barrier b id=lift
			5 b.1 1 granted passer b
			6 a.1 2 granted barrier b id=lift
			7 b.1 2 called passer b
			8 b.1 2 granted passer b`},
		"a barrier that does not keep": {[]string{"barrier"}, `
			1 a.1 1 called barrier b id=set
			2 a.1 1 granted barrier b id=set
			3 b.1 1 called passer b
			4 b.1 1 granted passer b
			5 a.1 2 called barrier b id=lift
			6 a.1 2 granted barrier b id=lift`},
		"a barrier that was set by another and that is not lifted again": {[]string{"barrier"}, `
			1 a.1 1 called barrier b id=set
			2 a.1 1 granted barrier b id=set
			3 a.1 2 called barrier b id=lift
			4 a.1 2 granted barrier b id=lift
			5 c.1 1 called barrier b id=set
			6 c.1 1 granted barrier b id=set
			7 b.1 1 called passer b
			8 b.1 1 granted passer b`},
		"a barrier that is perhaps lifted": {nil, `
			1 a.1 1 called barrier b id=lift
			2 a.1 1 failed barrier b err=unavailable
			3 c.1 1 called barrier b id=set
			4 c.1 1 granted barrier b id=set
			7 b.1 1 called passer b
			8 b.1 1 granted passer b`},
		"a barrier that was perhaps lifted before it was": {[]string{"barrier"}, `
			1 a.1 1 called barrier b id=lift
			2 a.1 1 failed barrier b err=unavailable
			3 a.1 2 called barrier b id=lift
			4 a.1 2 granted barrier b id=lift
			5 c.1 1 called barrier b id=set
			6 c.1 1 granted barrier b id=set
			7 b.1 1 called passer b
			8 b.1 1 granted passer b`},
		"a barrier that one is killed who lifts it": {nil, `
			1 a.1 1 called barrier b id=lift
			2 a.1 0 killed
			3 c.1 1 called barrier b id=set
			4 c.1 1 granted barrier b id=set
			7 b.1 1 called passer b
			8 b.1 1 granted passer b`},
		"a latch": {nil, `
			1 a.1 1 called latch l id=count_down
			2 a.1 1 granted latch l id=count_down value=2
			3 b.1 1 called awaiter l
			4 a.1 2 called latch l id=count_down
			4 b.1 2 called latch l id=count_down
			5 b.1 2 granted latch l id=count_down value=0
			6 a.1 2 granted latch l id=count_down value=1
			7 b.1 1 granted awaiter l
			8 a.1 3 called latch l id=count_down
			9 a.1 3 granted latch l id=count_down value=0
			10 a.1 4 called latch l id=remove
			11 a.1 4 granted latch l id=remove
			12 a.1 5 called latch l id=count_down
			13 a.1 5 granted latch l id=count_down value=2`},
		"a latch that opens too early": {[]string{"latch"}, `
			1 a.1 1 called latch l id=count_down
			2 a.1 1 granted latch l id=count_down value=2
			3 b.1 1 called awaiter l
			4 a.1 2 called latch l id=count_down
			5 a.1 2 granted latch l id=count_down value=1
			7 b.1 1 granted awaiter l`},
		"a latch that was perhaps counted down": {nil, `
			1 a.1 1 called latch l id=count_down
			2 a.1 1 granted latch l id=count_down value=2
			3 b.1 1 called awaiter l
			4 c.1 1 called latch l id=count_down
			5 c.1 1 failed latch l err=unavailable
			6 a.1 2 called latch l id=count_down
			7 a.1 2 granted latch l id=count_down value=1
			8 b.1 1 granted awaiter l`},
		"a latch that was perhaps counted down before somebody was told": {[]string{"latch"}, `
			1 c.1 1 called latch l id=count_down
			2 c.1 1 failed latch l err=unavailable
			3 a.1 1 called latch l id=count_down
			4 a.1 1 granted latch l id=count_down value=2
			5 a.1 2 called latch l id=count_down
			6 a.1 2 granted latch l id=count_down value=1
			7 b.1 1 called awaiter l
			8 b.1 1 granted awaiter l`},
		"a latch that loses a count": {[]string{"latch"}, `
			1 a.1 1 called latch l id=count_down
			2 a.1 1 granted latch l id=count_down value=2
			3 b.1 1 called latch l id=count_down
			4 b.1 1 granted latch l id=count_down value=2`},
		"a latch that counts twice": {[]string{"latch"}, `
			1 a.1 1 called latch l id=count_down
			2 a.1 1 granted latch l id=count_down value=5
			3 b.1 1 called latch l id=count_down
			4 b.1 1 granted latch l id=count_down value=3`},
		"a latch that closes by itself": {[]string{"latch"}, `
			1 a.1 1 called latch l id=count_down
			2 a.1 1 granted latch l id=count_down value=0
			3 b.1 1 called latch l id=count_down
			4 b.1 1 granted latch l id=count_down value=2`},
	})
}
