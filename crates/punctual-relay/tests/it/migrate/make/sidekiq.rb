# Writes jobs of Sidekiq in every state. apt install ruby-sidekiq; ruby sidekiq.rb PORT
require "sidekiq"
port = ARGV[0]
Sidekiq.configure_client { |c| c.redis = { url: "redis://127.0.0.1:#{port}/1" } }
class HardJob; include Sidekiq::Worker; sidekiq_options queue: "mail", retry: 5; end
module Shop; class SoftJob; include Sidekiq::Worker; sidekiq_options queue: "mail", retry: false; end; end
class OtherJob; include Sidekiq::Worker; sidekiq_options queue: "other"; end
HardJob.perform_async("ann", 1, { "deep" => [1, 2.5, nil] })
Shop::SoftJob.perform_async(9007199254740993)
OtherJob.perform_async(1)
HardJob.perform_in(30 * 86400, "later")
OtherJob.perform_in(30 * 86400, "later")
# What the server writes for a failed attempt and for a dead one: its own classes do it.
require "sidekiq/job_retry"
require "sidekiq/api"
item = { "class" => "HardJob", "queue" => "mail", "args" => ["fails"], "retry" => 5, "jid" => "aaaaaaaaaaaaaaaaaaaaaaaa", "created_at" => Time.now.to_f, "enqueued_at" => Time.now.to_f }
def fail_once(item)
  r = Sidekiq::JobRetry.new({})
  begin
    r.global(Sidekiq.dump_json(item), "mail") { raise ArgumentError, "smtp refused" }
  rescue Sidekiq::JobRetry::Handled, Sidekiq::JobRetry::Skip, ArgumentError
  end
end
fail_once(item)
fail_once(item.merge("jid" => "bbbbbbbbbbbbbbbbbbbbbbbb", "retry" => 0, "args" => ["dies"]))
fail_once(item.merge("jid" => "cccccccccccccccccccccccc", "retry" => 1, "retry_count" => 0, "failed_at" => Time.now.to_f, "args" => ["dies too"]))
