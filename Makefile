# The front door: a few words for what people do here. CMake and Cargo do the work; `make help`
# lists the targets. JOBS=N limits how many compilers run at once (default: one per core).
JOBS ?= $(shell nproc)
export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)
MAKEFLAGS += --no-print-directory

.DEFAULT_GOAL := help
.PHONY: help build model demo test bench eval format format-check golden-check asan tsan aarch64 clang fuzz install packages clean

help: ## list the targets
	@echo "libprefix: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F"|" '{ printf "%-16s%s\n", $$1, $$2 }'

build: ## release build: build/bin/prefix and build/lib
	@tools/install_deps build
	@tools/build release

model: ## fetch the demo model and print its path
	@tools/install_deps build
	@tools/fetch_model

demo: ## rank passages and answer questions with a small real model
	@tools/install_deps build
	@TARGETS="prefix-cli prefix_text_library" tools/build release
	@model=$$(tools/fetch_model) && python3 tools/demo/demo.py --model "$$model"

eval: build ## measure ranking and answers on tests/data/qa.json
	@model=$$(tools/fetch_model) && python3 tools/eval/eval.py --model "$$model"

test: ## install what is missing, build, run every test
	@tools/install_deps build test
	@tools/run_tests

bench: ## run the benchmarks of bench/ on this machine
	@tools/install_deps build bench
	@tools/build release -DPREFIX_WITH_ONEDNN=ON
	@tools/run_bench

format: ## format all sources
	@tools/install_deps test
	@tools/format

format-check: ## say which sources are not formatted
	@tools/install_deps test
	@tools/format --check

golden-check: ## recompute the golden vectors with Hugging Face transformers and compare
	@tools/install_deps build
	@tools/golden/check.sh

asan: ## build with the address and undefined-behaviour sanitizers, run the tests
	@tools/install_deps build test
	@tools/run_tests models asan

tsan: ## build with the thread sanitizer, run the concurrency tests
	@tools/install_deps build test
	@tools/run_tests models tsan

aarch64: ## cross-compile for aarch64, run the tests of its level on an emulator
	@tools/install_deps build test
	@tools/run_tests models aarch64

clang: ## build with clang and run the GoogleTest programs
	@tools/install_deps build test clang
	@tools/run_tests models clang

PREFIX ?= /usr/local
install: build ## install into PREFIX=DIR (default /usr/local); DESTDIR=DIR is put in front of it
	@cmake --install build --prefix "$$(realpath -ms -- "$(PREFIX)")" >build/install.log || { cat build/install.log >&2; exit 1; }
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi
	@echo "Installed into $(DESTDIR)$$(realpath -ms -- "$(PREFIX)"); build/install.log lists the files"

packages: build ## make the Debian packages: build/packages/*.deb
	@tools/debian_packages
	@samples/server/debian_package

MINUTES ?= 10
fuzz: ## run every fuzz target for a share of MINUTES=N (default 10): docs/testing.md
	@tools/install_deps build test clang
	@TARGETS=fuzzers tools/build fuzz
	@tools/fuzz --minutes $(MINUTES)

clean: ## remove every build folder (fetched models go too)
	rm -rf build build-asan build-tsan build-aarch64 build-aarch64-tests build-clang build-dev build-fuzz text/target
