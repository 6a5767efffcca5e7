# What each target needs it installs: `make setup` once on a Debian machine.

GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
TIMEOUT ?= 30m
# go-zookeeper races with itself when it connects again (over lastZxid). The
# detector would report that as ours, so it looks at everything but that package.
RACE     = -race -gcflags=github.com/go-zookeeper/zk=-race=false
# How often a test that failed may run again. CI allows one, and lists it.
RERUNS  ?= 0
TESTS    = $(TOOL) gotestsum --format pkgname --rerun-fails=$(RERUNS) --rerun-fails-max-failures=30 --rerun-fails-abort-on-data-race

# What "make chaos" does. A seed of 0 draws one.
ENGINE   ?= etcd
DURATION ?= 10m
SEED     ?= 0
REPORT   ?= chaos-$(ENGINE).html
# The seed of the run with faults in "make test".
TEST_SEED ?= 7

.PHONY: all build test setup vet lint generate generated table bench chaos cluster-up cluster-down clean

all: build test

build: ## the commands, into bin/
	$(GO) build -o bin/ ./cmd/...

test: setup vet lint generated ## everything that CI runs
	$(TESTS) --packages="$$($(GO) list ./... | grep -v /chaos$$)" -- $(RACE) -timeout $(TIMEOUT)
	CHAOS_SEED=$(TEST_SEED) $(TESTS) --packages=./chaos -- -timeout $(TIMEOUT) # takes the machine for itself

setup: ## ZooKeeper, a JRE, Chromium, databases, Redis and dynalite, where they are missing
	./tools/setup.sh

vet:
	$(GO) vet ./...

lint:
	$(TOOL) golangci-lint run ./...

generate: ## the Go files made from templates
	$(GO) generate ./...

generated: generate ## fails if generated files in the tree are not current
	git diff --exit-code -- '*_templ.go'
	$(GO) mod tidy -diff

table: setup ## the README's table of recipes and engines, from what the suites run
	$(GO) test -json -timeout $(TIMEOUT) -run '^(TestConformance|TestElection|TestJob|TestRateLimit)$$' ./etcd ./zk ./recipes/memory \
		| $(GO) run ./internal/recipetable README.md

bench: ## measures against peers, writes docs/performance.md
	$(GO) run ./bench -nodes 1,3 -o docs/performance.md
	$(GO) run ./bench rates -o docs/performance-rates.md

chaos: setup ## faults for DURATION on a cluster of ENGINE (etcd or zookeeper), from SEED; writes REPORT
	$(GO) run ./chaos -engine $(ENGINE) -duration $(DURATION) -seed $(SEED) -report $(REPORT)

cluster-up: ## three members of etcd, three of ZooKeeper and the console, in containers
	./compose/cluster.sh up

cluster-down: ## the opposite, with their data
	./compose/cluster.sh down

clean:
	rm -rf bin
