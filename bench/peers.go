package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockctl/lockctl/bench/internal/report"
	"github.com/lockctl/lockctl/internal/zkserver"
)

// peerFiles are programs in other languages. Each is called with the servers'
// addresses, a path and the number of clients. It says "ready" when all clients
// have a session, and answers each line of its input, a number of milliseconds to
// work for, by one line: the moments of the grants as a JSON array of nanoseconds
// since it began, in any order. It ends when its input does.
//
//go:embed peers
var peerFiles embed.FS

const peerPatience = time.Minute

// A peer is a runner in a process of its own.
type peer struct{ process *process }

func startPeer(cmd *exec.Cmd) (runner, error) {
	p, err := startProcess(cmd)
	if err != nil {
		return nil, err
	}
	if _, err := p.line(peerPatience); err != nil {
		return nil, errors.Join(err, p.end())
	}
	return &peer{p}, nil
}

func (p *peer) measure(_ context.Context, d time.Duration) ([]time.Duration, error) {
	if err := p.process.say(strconv.FormatInt(d.Milliseconds(), 10)); err != nil {
		return nil, err
	}
	line, err := p.process.line(d + peerPatience)
	if err != nil {
		return nil, err
	}
	return readMoments(line)
}

func (p *peer) close() error { return p.process.end() }

func readMoments(line string) ([]time.Duration, error) {
	var moments []time.Duration
	if err := json.Unmarshal([]byte(line), &moments); err != nil {
		return nil, fmt.Errorf("answer of a peer: %w", err)
	}
	return sorted(moments), nil
}

// peerArgs are the arguments that each peer's program takes.
func peerArgs(at site, namespace string) []string {
	return []string{strings.Join(at.service.addrs(), ","), "/" + namespace + "/" + at.name, strconv.Itoa(at.clients)}
}

func unpack(dir, name string) (string, error) {
	data, err := peerFiles.ReadFile("peers/" + name)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	return path, os.WriteFile(path, data, 0o600)
}

// jarDir is where Debian's packages put jars.
const jarDir = "/usr/share/java"

// curatorJars are in Debian's package libcurator-recipes-java and what it needs.
var curatorJars = []string{"curator-recipes", "curator-framework", "curator-client", "guava"}

// curator is a contender's open for a program of Curator's.
func curator(program string) func(ctx context.Context, at site) (runner, error) {
	return func(ctx context.Context, at site) (runner, error) {
		var classPath string
		h := &host{workspace: at.workspace}
		for _, jar := range curatorJars {
			if _, err := os.Stat(filepath.Join(jarDir, jar+".jar")); err != nil {
				return nil, missing("Curator is not installed: " + err.Error())
			}
		}
		if err := h.try(func() { classPath = zkserver.ClassPath(h, curatorJars...) }); err != nil {
			return nil, err
		}
		classes, err := at.workspace.once(program, func(dir string) (string, error) {
			javac, err := installed("javac")
			if err != nil {
				return "", err
			}
			source, err := unpack(dir, program+".java")
			if err != nil {
				return "", err
			}
			return dir, output(exec.CommandContext(ctx, javac, "-d", dir, "-cp", classPath, source))
		})
		if err != nil {
			return nil, err
		}
		args := append([]string{
			"-cp", classes + string(os.PathListSeparator) + classPath, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", program,
		}, peerArgs(at, strings.ToLower(program))...)
		return startPeer(exec.Command("java", args...))
	}
}

// kazooPython is a Python that has kazoo: the system's is where packages put it,
// which need not be the first one in the path.
func kazooPython(ctx context.Context) (string, error) {
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		if exec.CommandContext(ctx, python, "-c", "import kazoo").Run() == nil {
			return python, nil
		}
	}
	return "", missing("kazoo is not installed")
}

func kazooLock(ctx context.Context, at site) (runner, error) {
	python, err := kazooPython(ctx)
	if err != nil {
		return nil, err
	}
	script, err := at.workspace.once("kazoo", func(dir string) (string, error) { return unpack(dir, "kazoo_lock.py") })
	if err != nil {
		return nil, err
	}
	return startPeer(exec.Command(python, append([]string{script}, peerArgs(at, "kazoo")...)...))
}

// peerVersions are of the peers of ZooKeeper that are installed.
func peerVersions(ctx context.Context) []report.Fact {
	var facts []report.Fact
	if found, _ := filepath.Glob(filepath.Join(jarDir, "curator-recipes-*.jar")); len(found) > 0 {
		version := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(found[0]), "curator-recipes-"), ".jar")
		facts = append(facts, report.Fact{Name: "Apache Curator", Value: version + ", on " + javaVersion(ctx)})
	}
	if python, err := kazooPython(ctx); err == nil {
		script := "import kazoo, platform; print(kazoo.__version__ + ', on Python ' + platform.python_version())"
		if out, err := exec.CommandContext(ctx, python, "-c", script).Output(); err == nil {
			facts = append(facts, report.Fact{Name: "kazoo", Value: strings.TrimSpace(string(out))})
		}
	}
	return facts
}

func javaVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "java", "--version").Output()
	if err != nil {
		return "an unknown Java"
	}
	first, _, _ := strings.Cut(string(out), "\n")
	return first
}
