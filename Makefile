# SPDX-License-Identifier: GPL-2.0-only
#
# `make help` lists the targets. Everything that is made goes under build/.

.DELETE_ON_ERROR:
.SUFFIXES:
.SECONDARY:
MAKEFLAGS += --no-builtin-rules

B := build
V ?= 0
ifeq ($(V),0)
Q := @
say = @printf '  %-8s %s\n' '$(1)' '$(2)';
else
Q :=
say =
endif

ifeq ($(origin CC),default)
CC := gcc
endif
CLANG ?= clang
BPFTOOL ?= bpftool
PKG_CONFIG ?= pkg-config
PREFIX ?= /usr/local
DESTDIR ?=
BPF_DIR ?= $(PREFIX)/lib/xdp-bloom

WARN := -Wall -Wextra -Wformat=2 -Wshadow
CFLAGS ?= -O2 -g
ALL_CFLAGS = -std=gnu11 -D_GNU_SOURCE $(WARN) $(WERROR) -I$(B)/gen -Iuser -Itests -Iinclude \
	$(PKG_CFLAGS) $(CFLAGS)
SAN_CFLAGS = $(ALL_CFLAGS) -O1 -fsanitize=address,undefined -fno-sanitize-recover=all \
	-fno-omit-frame-pointer
BPF_ARCH_INCLUDE = -I/usr/include/$(shell $(CC) -print-multiarch)
BPF_CFLAGS = -g -O2 -target bpf -mcpu=v3 -Wall -Wextra -Wshadow $(WERROR) -Iinclude -Ibpf -Itests \
	$(BPF_ARCH_INCLUDE)

# Asked only by what needs them, so that `make check` can start on a machine without pkg-config.
PKG_CFLAGS = $(eval PKG_CFLAGS := $(shell $(PKG_CONFIG) --cflags libbpf json-c zlib libzstd yajl libmnl))$(PKG_CFLAGS)
# ncurses, for the tool alone.
TOOL_LIBS = $(eval TOOL_LIBS := $(shell $(PKG_CONFIG) --libs ncursesw))$(TOOL_LIBS)
LIBS = $(eval LIBS := $(shell $(PKG_CONFIG) --libs libbpf json-c zlib libzstd yajl libmnl) -lm \
	-pthread)$(LIBS)

# Which headers an object includes, the compiler writes beside it.
DEPS = -MMD -MP -MF $@.d -MT $@
BPF_HEADERS := $(wildcard include/xbloom/*.h bpf/*.h tests/*/*.bpf.h)

LIB_SRC := $(addprefix user/, error.c rate.c plan.c keytext.c list.c input.c format.c \
	format_lines.c format_csv.c format_nft.c format_json.c hashes.c prefixes.c keys.c \
	state.c prog.c rules.c machine.c exempt.c special.c ttl.c fill.c insert.c late.c rebuild.c ask.c gauge.c stats.c filter.c \
	probe.c truth.c measure.c \
	distinct.c judge.c samples.c attach.c)
# What is not the library is the tool.
CLI_SRC := $(filter-out $(LIB_SRC),$(wildcard user/*.c))
LIB_OBJ := $(LIB_SRC:%.c=$(B)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)
SAN_LIB_OBJ := $(LIB_SRC:%.c=$(B)/san/%.o)
SAN_CLI_OBJ := $(CLI_SRC:%.c=$(B)/san/%.o)

TEST_BPF := $(wildcard tests/*/*.bpf.c)
TEST_SKEL := $(patsubst tests/%.bpf.c,$(B)/gen/%.skel.h,$(TEST_BPF))
UNIT := $(patsubst tests/unit/%.c,%,$(wildcard tests/unit/test_*.c))
PACKET := $(patsubst tests/packet/%.c,%,$(wildcard tests/packet/test_*.c))
TOOLS := $(patsubst tests/tools/%.c,%,$(wildcard tests/tools/*.c))
TESTS_C := $(UNIT:%=unit/%) $(PACKET:%=packet/%)

.PHONY: all
all: $(B)/xdp-bloom $(B)/xdp_bloom.bpf.o

# ---- the data path ----

$(B)/xdp_bloom.bpf.o: bpf/xdp_bloom.bpf.c $(BPF_HEADERS) Makefile
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@.full
	$(Q)$(BPFTOOL) gen object $@ $@.full
	$(Q)rm -f $@.full

$(B)/gen/xdp_bloom.skel.h: $(B)/xdp_bloom.bpf.o
	$(call say,SKEL,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(BPFTOOL) gen skeleton $< name xdp_bloom_bpf > $@

$(B)/gen/prober.skel.h: bpf/prober.bpf.c $(BPF_HEADERS) Makefile
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $(@:.skel.h=.full.o)
	$(Q)$(BPFTOOL) gen object $(@:.skel.h=.bpf.o) $(@:.skel.h=.full.o)
	$(Q)$(BPFTOOL) gen skeleton $(@:.skel.h=.bpf.o) name prober_bpf > $@

# ---- the library and the tool ----

$(B)/user/%.o: user/%.c Makefile | $(B)/gen/xdp_bloom.skel.h $(B)/gen/prober.skel.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEPS) -c $< -o $@

$(B)/san/user/%.o: user/%.c Makefile | $(B)/gen/xdp_bloom.skel.h $(B)/gen/prober.skel.h
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN_CFLAGS) $(DEPS) -c $< -o $@

$(B)/libxbloom.a: $(LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/san/libxbloom.a: $(SAN_LIB_OBJ)
	$(call say,AR,$@)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(B)/xdp-bloom: $(CLI_OBJ) $(B)/libxbloom.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(CFLAGS) $(LDFLAGS) $^ $(LIBS) $(TOOL_LIBS) -o $@

$(B)/san/xdp-bloom: $(SAN_CLI_OBJ) $(B)/san/libxbloom.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SAN_CFLAGS) $(LDFLAGS) $^ $(LIBS) $(TOOL_LIBS) -o $@

# ---- tests: C programs that print TAP, BPF programs of their own, helper tools ----

$(B)/gen/%.skel.h: tests/%.bpf.c $(BPF_HEADERS) Makefile
	$(call say,BPF,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $(@:.skel.h=.full.o)
	$(Q)$(BPFTOOL) gen object $(@:.skel.h=.bpf.o) $(@:.skel.h=.full.o)
	$(Q)$(BPFTOOL) gen skeleton $(@:.skel.h=.bpf.o) name $(subst -,_,$(notdir $*))_bpf > $@

TEST_LIBS := -lcmocka
# What is tested of the tool itself.
$(B)/tests/unit/test_rates: $(B)/user/rates.o
$(B)/san/tests/unit/test_rates: $(B)/san/user/rates.o
$(B)/tests/bench/addresses: tests/bench/addresses.c tests/bench/bench.bpf.h
$(B)/tests/%: tests/%.c $(B)/libxbloom.a Makefile | $(TEST_SKEL)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEPS) $< $(filter %.o,$^) $(B)/libxbloom.a $(LIBS) $(TEST_LIBS) -o $@

$(B)/san/tests/%: tests/%.c $(B)/san/libxbloom.a Makefile | $(TEST_SKEL)
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN_CFLAGS) $(DEPS) $< $(filter %.o,$^) $(B)/san/libxbloom.a $(LIBS) $(TEST_LIBS) -o $@

# What looks into the library takes it along.
$(B)/tools/readlist: $(B)/libxbloom.a
$(B)/tools/flood: $(B)/gen/netns/flood.skel.h
$(B)/tools/%: tests/tools/%.c Makefile
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(ALL_CFLAGS) $(DEPS) $< $(filter %.a,$^) $(LIBS) -o $@

$(B)/san/tools/readlist: tests/tools/readlist.c $(B)/san/libxbloom.a Makefile
	$(call say,CC,$@)
	$(Q)mkdir -p $(@D)
	$(Q)$(CC) $(SAN_CFLAGS) $(DEPS) $< $(B)/san/libxbloom.a $(LIBS) -o $@

.PHONY: tests
tests: all $(B)/san/xdp-bloom $(TESTS_C:%=$(B)/tests/%) $(TESTS_C:%=$(B)/san/tests/%) \
	$(TOOLS:%=$(B)/tools/%) $(B)/san/tools/readlist $(addprefix $(B)/tests/bench/, bench addresses billion) \
	$(B)/gen/netns/pass.skel.h

# ---- what people call ----

CHECK_ENV = XDP_BLOOM=$(CURDIR)/$(B)/xdp-bloom XDP_BLOOM_SAN=$(CURDIR)/$(B)/san/xdp-bloom \
	BUILD=$(CURDIR)/$(B) CMOCKA_MESSAGE_OUTPUT=TAP

# Each needs packages before make can even look at what is to be built, hence the second make.
BENCHES := all $(addprefix $(B)/tests/bench/, bench addresses billion)
.PHONY: check demo bench bench-load bench-billion
check:
	$(Q)scripts/deps.sh check
	$(Q)$(MAKE) $(if $(filter 1,$(V)),,-s) --no-print-directory -j2 tests
	$(Q)$(CHECK_ENV) prove -j2 $(if $(filter 1,$(V)),-v) -e env $(wildcard tests/source/*.t) \
		$(UNIT:%=$(B)/tests/unit/%) $(UNIT:%=$(B)/san/tests/unit/%) \
		$(PACKET:%=$(B)/tests/packet/%) \
		$(patsubst %,$(B)/san/tests/packet/%,$(filter-out test_rate,$(PACKET))) \
		$(wildcard tests/cli/*.t) $(wildcard tests/netns/*.t)

demo:
	$(Q)scripts/deps.sh demo
	$(Q)$(MAKE) $(if $(filter 1,$(V)),,-s) --no-print-directory -j2 all $(B)/tools/traffic
	$(Q)$(CHECK_ENV) scripts/demo.sh

bench:
	$(Q)scripts/deps.sh bench
	$(Q)$(MAKE) $(if $(filter 1,$(V)),,-s) --no-print-directory -j2 $(BENCHES)
	$(Q)$(B)/tests/bench/bench $(BENCH_ARGS)
	@echo
	$(Q)python3 tests/bench/load.py $(LOAD_ARGS)

bench-load:
	$(Q)scripts/deps.sh bench
	$(Q)$(MAKE) $(if $(filter 1,$(V)),,-s) --no-print-directory -j2 $(BENCHES)
	$(Q)python3 tests/bench/load.py $(LOAD_ARGS)

bench-billion:
	$(Q)scripts/deps.sh bench
	$(Q)$(MAKE) $(if $(filter 1,$(V)),,-s) --no-print-directory -j2 $(BENCHES)
	$(Q)bash tests/bench/billion.sh $(BILLION_ITEMS)

# The vectors are committed; this writes them anew from their definition.
.PHONY: golden
golden:
	$(Q)python3 tests/golden/golden.py > tests/golden/golden.h.new
	$(Q)mv tests/golden/golden.h.new tests/golden/golden.h

.PHONY: install uninstall
install: all
	install -D -m 755 $(B)/xdp-bloom $(DESTDIR)$(PREFIX)/sbin/xdp-bloom
	install -D -m 644 $(B)/xdp_bloom.bpf.o $(DESTDIR)$(BPF_DIR)/xdp_bloom.bpf.o
	install -d $(DESTDIR)$(PREFIX)/share/man/man8
	sed 's|/usr/local/lib/xdp-bloom|$(BPF_DIR)|' man/xdp-bloom.8 \
		> $(DESTDIR)$(PREFIX)/share/man/man8/xdp-bloom.8
	chmod 644 $(DESTDIR)$(PREFIX)/share/man/man8/xdp-bloom.8
	install -D -m 644 dist/bash-completion/xdp-bloom \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/xdp-bloom
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|/usr/local/sbin|$(PREFIX)/sbin|' dist/systemd/xdp-bloom-watch@.service \
		> $(DESTDIR)$(PREFIX)/lib/systemd/system/xdp-bloom-watch@.service
	chmod 644 $(DESTDIR)$(PREFIX)/lib/systemd/system/xdp-bloom-watch@.service

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/sbin/xdp-bloom $(DESTDIR)$(BPF_DIR)/xdp_bloom.bpf.o \
		$(DESTDIR)$(PREFIX)/share/man/man8/xdp-bloom.8 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/xdp-bloom \
		$(DESTDIR)$(PREFIX)/lib/systemd/system/xdp-bloom-watch@.service
	-rmdir $(DESTDIR)$(BPF_DIR)

.PHONY: clean
clean:
	$(Q)rm -rf $(B)

.PHONY: help
help:
	@echo 'make demo     see it work: installs what is missing, builds, runs, leaves nothing behind'
	@echo 'make check    run the tests (installs what is missing); V=1 shows each'
	@echo 'make bench    nanoseconds per packet beside other kernel structures, and the loading of'
	@echo '              10,000,000 addresses beside ipset and nft (bench-load: this alone);'
	@echo '              BENCH_ARGS="--rounds N", LOAD_ARGS="--items N --rounds N"'
	@echo 'make bench-billion  a filter of 1,000,000,000 keys (BILLION_ITEMS=N)'
	@echo 'make          build $(B)/xdp-bloom and $(B)/xdp_bloom.bpf.o; needs no root'
	@echo 'make install  to PREFIX ($(PREFIX)), DESTDIR is respected; make uninstall'
	@echo 'make tests    build the tests without running them'
	@echo 'make golden   write the golden vectors anew from their definition (python3)'
	@echo 'make clean    remove $(B)/'

-include $(shell find $(B) -name '*.d' 2>/dev/null)
