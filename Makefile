# What can be done here; ARGS goes to the script: make test ARGS='--only e2e --test recall'.
.PHONY: help demo demo-stop setup build install package test-package release test fuzz test-assert test-pg16 test-pg17 test-pg18 test-llm bench evaluate lint clean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1\t/p' Makefile | expand -t 20

demo: ## everything installed and built, a private cluster in ./.demo, recall and a chat shown on a conversation
	scripts/demo

demo-stop: ## stop the demo's gateway and cluster; `make clean` removes them
	scripts/demo stop

setup: ## install what is missing on this machine
	scripts/setup

build: ## build the extension, the model server and the gateway, without installing them
	scripts/build

install: ## build, and install into the PostgreSQL that PG_CONFIG names (default: Debian's 15)
	scripts/install

package: ## Debian packages for Debian's PostgreSQL 15; ARGS: the folder for them
	scripts/package $(ARGS)

test-package: ## the packages installed, used and purged in a Debian 12 of their own (root; 3 GB)
	scripts/test-package

release: ## prepares a release, without tag and upload; ARGS: '0.3.0', '0.3.0 --dry-run --skip-build'
	scripts/release $(ARGS)

test: ## all tests
	scripts/test $(ARGS)

fuzz: ## fuzzes every parser, a minute each; ARGS: a target and its seconds, 'filter 600'
	scripts/fuzz $(ARGS)

test-assert: ## end-to-end tests with a PostgreSQL 15 that checks itself and wipes freed memory
	scripts/test-assert $(ARGS)

test-pg16: ## end-to-end tests with PostgreSQL 16, from a Python wheel
	scripts/test-pg16 $(ARGS)

test-pg17: ## end-to-end tests with PostgreSQL 17, in a Debian 13 of their own (root; some GB)
	scripts/test-pg 17 $(ARGS)

test-pg18: ## the same with PostgreSQL 18, in a Debian testing (forky)
	scripts/test-pg 18 $(ARGS)

test-llm: ## a local language model of 1.5 billion parameters, on labelled turns; downloads it (1.2 GB)
	scripts/test-llm $(ARGS)

bench: ## recall quality and latency
	scripts/bench $(ARGS)

evaluate: ## what is still known after long conversations, and what that costs
	scripts/evaluate $(ARGS)

lint: ## format, clippy, SQL, scripts, models
	scripts/lint

clean: ## remove what was built, and the demo's cluster
	scripts/clean
