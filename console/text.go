package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// clip cuts a text to limit characters, the last one being an ellipsis.
func clip(text string, limit int) string {
	if utf8.RuneCountInString(text) <= limit {
		return text
	}
	n := 0
	for i := range text {
		if n++; n == limit {
			return text[:i] + "…"
		}
	}
	return text
}

// stamp is a moment in UTC for people, to the second. Pages replace it by an age.
func stamp(t time.Time) string {
	if t.IsZero() {
		return "unknown"
	}
	return t.UTC().Format("2 Jan 15:04:05")
}

// span is a duration for people, with three digits or two units.
func span(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Second:
		return digits(float64(d)/float64(time.Millisecond)) + " ms"
	case d < time.Minute:
		return digits(d.Seconds()) + " s"
	case d < time.Hour:
		return fmt.Sprintf("%dm %02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh %02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd %02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}

func digits(x float64) string {
	decimals := 0
	switch {
	case x < 10:
		decimals = 2
	case x < 100:
		decimals = 1
	}
	scale := math.Pow(10, float64(decimals))
	return fmt.Sprintf("%.*f", decimals, math.Floor(x*scale)/scale)
}

// objects is how many objects, "1 object" or "2 objects".
func objects(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// decimal is a number with up to two decimals.
func decimal(x float64) string { return strconv.FormatFloat(math.Round(100*x)/100, 'f', -1, 64) }

// capital is a word with its first letter, an ASCII one, in upper case.
func capital(word string) string { return strings.ToUpper(word[:1]) + word[1:] }
