# Sidekiq, of Debian: bulk calls of 1,000, one process.
require "json"
require "set"
require "sidekiq"
require "sidekiq/cli"

QUEUE = "bench"
AHEAD = 1.3
SLICES_PER_SECOND = 5
MONTH = 30 * 24 * 3600
PAYLOAD = "x" * 100
ADDRESS = { url: "redis://127.0.0.1:#{ENV.fetch("REDIS_PORT")}" }

Sidekiq.configure_client { |config| config.redis = ADDRESS }
Sidekiq.configure_server { |config| config.redis = ADDRESS }
# A failed attempt is logged as a warning, on the output that the bench reads.
Sidekiq.logger.level = Logger::ERROR

# What handlers saw, reported in lines.
SEEN = { done: 0, first: 0, last: 0, late: [] }
LOCK = Mutex.new

class Noop
  include Sidekiq::Worker
  sidekiq_options queue: QUEUE

  def perform(payload)
    at = (Time.now.to_r * 1_000_000).to_i
    LOCK.synchronize do
      SEEN[:late] << at - payload.to_i if payload != PAYLOAD
      SEEN[:first] = at if SEEN[:first] == 0
      SEEN[:last] = at
      SEEN[:done] += 1
    end
  end
end

# Fails once.
class Flaky < Noop
  sidekiq_options queue: QUEUE, retry: 1
  sidekiq_retry_in { 1 }
  FAILED = Set.new

  def perform(payload)
    first = LOCK.synchronize { FAILED.add?(jid) }
    raise "the first attempt fails" if first
    super
  end
end

# Jobs of a kind, due as many ms ahead to twice as many.
def job(kind, count, batch, _callers, ahead)
  (0...count).step(batch) do |from|
    payloads = Array.new([batch, count - from].min) { PAYLOAD }
    case kind
    when "plain" then push(Noop, payloads)
    when "scheduled" then push_at(payloads.map { Time.now.to_f + ahead * (1 + rand) / 1000 }, payloads)
    when "retry" then push(Flaky, payloads)
    else raise "no equal of #{kind}"
    end
  end
end

def push(worker, payloads)
  Sidekiq::Client.push_bulk("class" => worker, "queue" => QUEUE, "args" => payloads.map { |payload| [payload] })
end

def enqueue(jobs, batch, _callers)
  (0...jobs).step(batch) do |from|
    size = [batch, jobs - from].min
    if size == 1
      Noop.perform_async(PAYLOAD)
    else
      Sidekiq::Client.push_bulk("class" => Noop, "queue" => QUEUE, "args" => Array.new(size) { [PAYLOAD] })
    end
  end
end

def schedule(rate, seconds)
  slice = 1.0 / SLICES_PER_SECOND
  started = Time.now.to_f
  sent = 0
  (seconds * SLICES_PER_SECOND).times do |nth|
    send_at = started + nth * slice
    wait = send_at - Time.now.to_f
    sleep(wait) if wait > 0
    til = rate * (nth + 1) / SLICES_PER_SECOND
    dues = Array.new(til - sent) { send_at + AHEAD + rand * slice }
    sent = til
    push_at(dues, dues.map { |due| (due * 1_000_000).round.to_s }) unless dues.empty?
  end
end

def fill(jobs)
  (0...jobs).step(1_000) do |from|
    size = [1_000, jobs - from].min
    enqueue(size / 2, size / 2, 1)
    later = size - size / 2
    now = Time.now.to_f
    push_at(Array.new(later) { now + 1 + rand * MONTH }, Array.new(later) { PAYLOAD })
  end
end

def push_at(dues, payloads)
  args = payloads.map { |payload| [payload] }
  Sidekiq::Client.push_bulk("class" => Noop, "queue" => QUEUE, "args" => args, "at" => dues)
end

def work
  Thread.new do
    $stdin.read
    exit!(0)
  end
  Thread.new do
    $stdout.sync = true
    puts({ ready: true }.to_json)
    loop do
      sleep 0.02
      line = LOCK.synchronize do
        next if SEEN[:done] == 0
        seen = SEEN.to_json
        SEEN.update(done: 0, first: 0, last: 0, late: [])
        seen
      end
      puts line if line
    end
  end
  cli = Sidekiq::CLI.instance
  cli.parse(["-q", QUEUE, "-c", "10", "-r", __FILE__])
  cli.run
end

if $PROGRAM_NAME == __FILE__ && !defined?(STARTED)
  STARTED = true
  order, *numbers = ARGV
  numbers.map! { |word| word.match?(/\A\d+\z/) ? word.to_i : word }
  if order == "work"
    work
  else
    started = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    send(order, *numbers)
    took = Process.clock_gettime(Process::CLOCK_MONOTONIC) - started
    puts({ seconds: took }.to_json)
  end
end
