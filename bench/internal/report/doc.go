// Package report turns what a benchmark measured into figures, tables, charts
// and a page. It measures nothing itself.
//
// A [Scenario] is one thing to do, a [Result] how one contender did it, a
// [Sample] one round of that. Contenders take turns round by round, so the
// samples of one round belong together: how much longer one contender takes than
// another is computed round by round, and the median of that is reported.
package report
