package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/lockctl/lockctl/internal/statejson"
	"github.com/lockctl/lockctl/internal/termtext"
	"github.com/lockctl/lockctl/recipes"
)

func (a *app) getCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get NAME",
		Short: "Print the value of a register",
		Long: `Print the value of a register: a string as it is, anything else as JSON. On a terminal,
characters that it would act on are escaped. With -o json there is the version too, for cas.

Exit code: 75 if the register has no value.`,
		Example: `  lockctl get config/limit`,
		Args:    arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withRegister(cmd.Context(), args[0], func(ctx context.Context, r *register) (value, error) {
				v, err := r.Get(ctx)
				if err == nil && v.Version == 0 {
					err = &exit{exitNotAcquired, fmt.Errorf("register %q has no value", args[0])}
				}
				return v, err
			}, a.writeValue)
		},
	}
}

func (a *app) setCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME VALUE|-",
		Short: "Write the value of a register",
		Long: `Write the value of a register, whatever it was, and print its new version. A VALUE that
is JSON is stored as that, and any other as a string; "-" reads it from standard input.`,
		Example: `  lockctl set config/limit 20
  lockctl set config/hosts - <hosts.json`,
		Args: values("set NAME VALUE|-", 2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := a.readValue(args[1])
			if err != nil {
				return err
			}
			return a.withRegister(cmd.Context(), args[0], func(ctx context.Context, r *register) (value, error) {
				return r.Update(ctx, func(json.RawMessage) (json.RawMessage, error) { return data, nil })
			}, a.writeVersion)
		},
	}
}

func (a *app) casCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "cas NAME VERSION VALUE|-",
		Short: "Write the value of a register if it is still at a version",
		Long: `Write the value of a register if it is still at VERSION, which lockctl get -o json, set and cas tell,
and print its new version. Version 0 means that the register has no value. Values are those of
lockctl set.

Exit code: 75 if it is at another version.`,
		Example: `  lockctl cas config/limit 0 20
  lockctl cas config/limit 45 21`,
		Args: values("cas NAME VERSION VALUE|-", 3, 3),
		RunE: func(cmd *cobra.Command, args []string) error {
			version, err := strconv.ParseUint(args[1], 10, 64)
			if err != nil {
				return usageError("version %q is not a number", args[1])
			}
			data, err := a.readValue(args[2])
			if err != nil {
				return err
			}
			return a.withRegister(cmd.Context(), args[0], func(ctx context.Context, r *register) (value, error) {
				v, err := r.CompareAndSwap(ctx, version, data)
				return v, conflicting(err)
			}, a.writeVersion)
		},
	}
}

// values checks that a command has as many arguments as its usage says.
func values(usage string, least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most {
			return usageError("usage: lockctl %s; see %s --help", usage, cmd.CommandPath())
		}
		return nil
	}
}

type (
	register = recipes.Register[json.RawMessage]
	value    = recipes.Versioned[json.RawMessage]
)

// withRegister does something with a register, and writes what it says then.
func (a *app) withRegister(ctx context.Context, name string, do func(context.Context, *register) (value, error),
	write func(value) error) error {
	return a.ask(ctx, func(ctx context.Context, b backend, client *recipes.Client) error {
		r, err := recipes.NewRegister[json.RawMessage](client, name)
		if err != nil {
			return err
		}
		v, err := do(ctx, r)
		switch {
		case err != nil:
			return err
		case a.json():
			by := ownerJSON(v.By)
			return a.writeJSON(registerJSON{
				Backend: b.name(), Engine: client.Engine(), Name: name,
				Version: tokenText(v.Version), Value: v.Value, By: &by, At: statejson.Time(v.At),
			})
		}
		return write(v)
	})
}

// registerJSON is a register: what get, set and cas write.
type registerJSON struct {
	Backend string          `json:"backend"`
	Engine  string          `json:"engine"`
	Name    string          `json:"name"`
	Version string          `json:"version"`
	Value   json.RawMessage `json:"value"`
	By      *ownerJSON      `json:"by"`
	At      time.Time       `json:"at,omitzero"`
}

// mostInput bounds what is read from standard input; a register takes less.
const mostInput = 1 << 20

// readValue is the JSON of an argument, or of standard input for "-".
func (a *app) readValue(arg string) (json.RawMessage, error) {
	data := []byte(arg)
	if arg == "-" {
		var err error
		if data, err = io.ReadAll(io.LimitReader(a.Stdin, mostInput+1)); err != nil {
			return nil, fmt.Errorf("read the value: %w", err)
		}
	}
	switch {
	case len(data) > mostInput:
		return nil, usageError("the value is longer than %d bytes", mostInput)
	case json.Valid(data):
		return data, nil
	case !utf8.Valid(data):
		return nil, usageError("the value is neither JSON nor UTF-8")
	}
	return json.Marshal(string(data))
}

// plainValue is a string as it is, and anything else as JSON.
func plainValue(value json.RawMessage) string {
	text := string(value)
	if s := ""; json.Unmarshal(value, &s) == nil && text != "null" {
		return s
	}
	return text
}

func (a *app) writeValue(v value) error { return a.writePlain(plainValue(v.Value)) }

// writePlain writes a line of text that another process wrote.
func (a *app) writePlain(text string) error {
	if isTerminal(a.Stdout) {
		text = termtext.Escape(text)
	}
	_, err := fmt.Fprintln(a.Stdout, text)
	return err
}

func (a *app) writeVersion(v value) error {
	_, err := fmt.Fprintln(a.Stdout, v.Version)
	return err
}
