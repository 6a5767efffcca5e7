package cli

import (
	"runtime"
	"runtime/debug"
)

// version is the version of the module, or of the checkout that it was built from.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	revision := "devel"
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			revision += "+changes"
		}
	}
	return revision
}

func goVersion() string { return runtime.Version() }
