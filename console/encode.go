package console

import (
	"bytes"
	"encoding/json"
)

// encode is json.Marshal for our own messages, which always encode. It leaves "<"
// and ">" as they are: messages carry much HTML, and are never part of a page.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
