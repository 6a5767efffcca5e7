package recipes

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lockctl/lockctl/recipes/driver"
)

// maxText is the greatest length of each text of an Owner, in bytes.
const maxText = 256

// An Owner says who holds a lock or waits for it. It is written into every
// entry, for people to read; nothing depends on it. Treat the texts of other
// processes' owners as untrusted.
type Owner struct {
	Program string `json:"program,omitempty"` // the program's name
	Host    string `json:"host,omitempty"`    // the host's name
	PID     int    `json:"pid,omitempty"`     // the process on that host
	User    string `json:"user,omitempty"`    // the login name it runs as
	Label   string `json:"label,omitempty"`   // whatever the user wants shown
}

// Self describes this process: program, host, process id and user.
func Self() Owner {
	owner := Owner{PID: os.Getpid()}
	if len(os.Args) > 0 {
		owner.Program = filepath.Base(os.Args[0])
	}
	owner.Host, _ = os.Hostname() // shown only; an unknown host is left empty
	if u, err := user.Current(); err == nil {
		owner.User = u.Username
	}
	return owner
}

// String is "program@host:pid (label)", without what is not known.
func (o Owner) String() string {
	var b strings.Builder
	b.WriteString(o.Program)
	if o.Host != "" {
		b.WriteString("@" + o.Host)
	}
	if o.PID != 0 {
		fmt.Fprintf(&b, ":%d", o.PID)
	}
	if o.Label != "" {
		fmt.Fprintf(&b, " (%s)", o.Label)
	}
	if b.Len() == 0 {
		return "unknown"
	}
	return b.String()
}

func (o Owner) validate(field string) error {
	texts := []struct{ name, text string }{
		{"Program", o.Program}, {"Host", o.Host}, {"User", o.User}, {"Label", o.Label},
	}
	for _, t := range texts {
		if problem := textProblem(t.text, maxText); problem != "" {
			return &InvalidError{Field: field + "." + t.name, Problem: problem}
		}
	}
	return nil
}

// note is the value of an entry as it is stored: the owner, what the entry is
// for, and since when it is there.
type note struct {
	Kind  Kind      `json:"kind"`           // the recipe, such as "mutex"
	Mode  string    `json:"mode,omitempty"` // modeShared, or "" for exclusive
	quota           // of a semaphore's entry
	Owner           // flattened into the same object
	Since time.Time `json:"since"` // when the owner joined, by its clock

	Published json.RawMessage `json:"published,omitempty"` // see Hold.Publish
}

// quota is what a semaphore's entry says beyond the owner.
type quota struct {
	Permits int  `json:"permits,omitempty"` // how many it takes
	Limit   int  `json:"limit,omitempty"`   // of all permits, as far as the entry's maker knew
	Granted bool `json:"granted,omitempty"` // it holds its permits, whatever Limit would say
}

// template is a note without its time, encoded once for all entries that differ
// in that alone.
type template []byte

func newTemplate(kind Kind, mode string, owner Owner) template {
	return newQuotaTemplate(kind, mode, quota{}, owner)
}

func newQuotaTemplate(kind Kind, mode string, q quota, owner Owner) template {
	data, err := json.Marshal(struct {
		Kind Kind   `json:"kind"`
		Mode string `json:"mode,omitempty"`
		quota
		Owner
	}{kind, mode, q, owner})
	if err != nil { // strings, numbers and booleans always encode
		panic(err)
	}
	return append(data[:len(data)-1], `,"since":"`...)
}

// publishing is the template with what the entry publishes, nil for nothing.
func (t template) publishing(shows json.RawMessage) template {
	if shows == nil {
		return t
	}
	head := bytes.TrimSuffix(t, []byte(`,"since":"`))
	return fmt.Appendf(nil, `%s,"published":%s,"since":"`, head, shows)
}

// at is the encoded note.
func (t template) at(since time.Time) []byte {
	note := make([]byte, len(t), len(t)+len(time.RFC3339Nano)+2)
	copy(note, t)
	return append(since.UTC().AppendFormat(note, time.RFC3339Nano), `"}`...)
}

// timeOf is the time of a note that was encoded by the template.
func (t template) timeOf(value []byte) (since time.Time, ok bool) {
	if t == nil || !bytes.HasPrefix(value, t) {
		return time.Time{}, false
	}
	text, ok := bytes.CutSuffix(value[len(t):], []byte(`"}`))
	if !ok {
		return time.Time{}, false
	}
	since, err := time.Parse(time.RFC3339Nano, string(text))
	return since, err == nil
}

// readNote reads an entry's value. A value that is not ours gives ok == false.
func readNote(value []byte) (n note, ok bool) {
	if err := json.Unmarshal(value, &n); err != nil || n.Kind == "" {
		return note{}, false
	}
	return n, true
}

// modeShared is the mode of an entry that holds together with others of its mode.
const modeShared = "shared"

// isShared reports whether an entry is shared. Other programs' are not.
func isShared(e driver.Entry) bool {
	n, ok := readNote(e.Value)
	return ok && n.Mode == modeShared
}

// textProblem says what is wrong with a text of up to limit bytes, or "".
func textProblem(text string, limit int) string {
	if len(text) > limit {
		return fmt.Sprintf("is %d bytes long, more than %d", len(text), limit)
	}
	if !utf8.ValidString(text) {
		return "is not valid UTF-8"
	}
	if i := strings.IndexFunc(text, unicode.IsControl); i >= 0 {
		return fmt.Sprintf("has a control character at byte %d", i)
	}
	return ""
}
