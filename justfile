# Everything one may run here. `just` alone lists it.

_list:
    @just --list

# Every test, as the machines run it
test:
    scripts/test

# Fresh seeds, longer faults and soaks, about an hour; a seed repeats a run: `just deep 7`
deep *seed:
    scripts/deep {{seed}}

# The README's Rust program in a project of its own, and what the compiler says of two mistakes
readme:
    scripts/readme

# What a change must pass before anything else
check:
    cargo fmt --all --check
    cargo clippy --locked --workspace --all-targets --all-features -- -D warnings

# Format all code
fmt:
    cargo fmt --all

# Renew what is generated from the tables of the contract, and the dashboard's types (needs Node 20)
contract:
    cargo run -q -p punctual-contract
    cargo run -q -p punctual-gateway --example openapi > target/openapi.json
    mv target/openapi.json dashboard/openapi.json
    npm ci --prefix dashboard --no-fund --no-audit --silent
    npm run types --prefix dashboard

# The rules that no compiler checks
tidy:
    cargo nextest run -p punctual-tidy

# The main job on real input: orders paid or cancelled on time
demo *options:
    cargo run --release -- demo {{options}}

# The library's documentation, in a browser
doc:
    cargo doc --workspace --no-deps --open

# Build, start, call and end the container file (docker or podman and their registries, or buildah)
container:
    scripts/container

# Check, run, reload, kill and stop the systemd unit under a systemd of its own (Linux, root)
unit:
    scripts/unit

# Licences, sources and doubled versions of dependencies (cargo install cargo-deny --locked)
deny:
    cargo deny check licenses bans sources

# The Redis engine's loops of faults, as often as asked: `just faults 20`
faults times="20":
    PUNCTUAL_FAULTS={{times}} cargo test -p punctual-redis --test it -- --nocapture --test-threads=1 faults:: failover:: outbox:: cuts:: cuts_together:: cuts_apart:: waits:: flushes:: promoted::

# A pile of jobs due in one minute on Redis, and what the server calls slow: `just pile 10000000`
pile jobs="1000000":
    PUNCTUAL_PILE={{jobs}} cargo test --release -p punctual-redis --test it -- --nocapture --test-threads=1 pile:: walks::

# Jobs that come and go, and what is left of them in memory and on disk: `just soak 1000000`
soak jobs="1000000":
    PUNCTUAL_SOAK={{jobs}} cargo test --release -p punctual-cli --test it -- --nocapture --test-threads=1 liveness::soak::

# A hundred workers with nothing to do on Redis, minute by minute: `just idle 30`
idle minutes="30":
    PUNCTUAL_IDLE={{minutes}} cargo test -p punctual-cli --test it -- --nocapture liveness::idle::

# Our own numbers on any engine: lifecycle, lateness, footprint
bench *options:
    cargo run --release -- bench {{options}}

# The timing wheel beside a heap, a tree and DelayQueue
bench-timers *options:
    cargo run --release -p punctual-bench --bin timers -- {{options}}

# The embedded engine beside its disk, beanstalkd and a bare store (apt-get install beanstalkd)
bench-embedded:
    cargo run --release -p punctual-bench --bin embedded -- callers
    cargo run --release -p punctual-bench --bin embedded -- life
    cargo run --release -p punctual-bench --bin embedded -- pending
    cargo run --release -p punctual-bench --bin embedded -- passed

# The gateway beside its goals: a load in one process, punctual serve in another
bench-gateway:
    cargo build --release -p punctual-cli -p punctual-bench
    cargo run --release -p punctual-bench --bin gateway -- enqueue
    cargo run --release -p punctual-bench --bin gateway -- bulk
    cargo run --release -p punctual-bench --bin gateway -- lateness
    cargo run --release -p punctual-bench --bin gateway -- sockets
    cargo run --release -p punctual-bench --bin gateway -- pages
    cargo run --release -p punctual-bench --bin gateway -- pages --engine redis

# The dashboard: types, whether the committed page matches its sources, every page in a browser
dashboard:
    scripts/dashboard

# Punctual on Redis beside its rivals, which are installed below target/ first
bench-redis *options:
    bench/rivals/install || true
    cargo run --release -p punctual-bench --bin redis -- {{options}}

# Malformed inputs, a million for each reader of bytes from outside: `just fuzz SEED INPUTS`
fuzz seed="1" inputs="1000000":
    PUNCTUAL_FUZZ_SEED={{seed}} PUNCTUAL_FUZZ_INPUTS={{inputs}} cargo test --release -p punctual-fuzz --test it

# Every engine under faults, ten minutes at most (as the machines run it)
torture-quick *options:
    scripts/torture {{options}}

# Many small jobs under faults, added to the totals of the pages; `just torture-totals 40 --seed N`
torture-totals minutes *options:
    scripts/torture totals {{minutes}} {{options}}

# Every engine under faults, an hour; `--seed N` sets the seed; `just torture totals` adds to totals
torture *options:
    scripts/torture hour {{options}}
