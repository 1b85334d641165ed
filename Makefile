# SPDX-License-Identifier: Apache-2.0
# Thin wrappers around scripts/, CMake presets and ctest. Everything they make is below build/ and runs/.
PREFIX ?= /usr/local
export JOBS

.PHONY: build demo test lint soak bench docs install gpu-bundle test-gpu clean help packages
.DEFAULT_GOAL := build

build: packages  ## builds the libraries and the command line; leaves build/weir
	@scripts/build release product

demo: build  ## a model learns a text, is killed, resumes and continues a text; CORPUS=path takes another text
	@scripts/install-packages demo
	@demos/prose/demo.sh

test: packages  ## builds and runs all tests but the long ones, also under sanitizers
	@scripts/install-packages demo test
	@[ ! -f build/release/build.ninja ] || cmake build/release >/dev/null
	@scripts/test

soak: packages  ## runs the long tests and the fuzzers, and compares runs of two compilers
	@scripts/install-packages demo test soak
	@scripts/test --soak
	@scripts/fuzz
	@scripts/same-bits

lint: packages  ## checks layers, sizes, words, format and comments, and changed sources by clang-tidy
	@scripts/install-packages build lint
	@scripts/build release all_verify_interface_header_sets
	@scripts/build lint
	@ctest --preset lint -L lint
	@scripts/tidy
	@echo "weir: lint is clean"

bench: build  ## measures and prints a table; ONLY='id,pattern*' selects rows, PEERS=all adds slow peers
	@scripts/install-packages bench
	@cmake build/release >/dev/null
	@scripts/build release benches
	@bench/models/prepare.py build/weir . build/peers '$(ONLY)' || true
	@WEIR_PEERS='$(PEERS)' bench/run.py --programs build/release/bench --only '$(ONLY)' --required bench/required.txt

docs: packages  ## renders the reference of all installed headers into build/docs
	@scripts/install-packages docs
	@scripts/docs

install: build  ## installs into PREFIX=DIR (default /usr/local)
	@cmake --install build/release --prefix '$(PREFIX)' >/dev/null
	@echo "weir: installed into $(PREFIX)"

gpu-bundle: packages  ## makes build/gpu-bundle: tests and measurements for a machine with a GPU
	@scripts/install-packages test
	@[ ! -f build/release/build.ninja ] || cmake build/release >/dev/null
	@scripts/build release gpu_tests gpu_bars gpu_conformance
	@scripts/gpu-bundle

test-gpu: gpu-bundle  ## runs the bundle on the GPUs of this machine, or says that there are none
	@build/gpu-bundle/test_gpu.py

clean:  ## removes build/
	rm -rf build

help:  ## prints this list
	@sed -n 's/^\([a-z-]*\):.*  ## /  make \1|/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

packages:
	@scripts/install-packages build
