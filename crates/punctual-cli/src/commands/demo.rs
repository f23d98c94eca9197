//! `punctual demo`: a shop that cancels unpaid orders on time, killed or not.

mod ledger;
mod live;
mod orders;
mod reconcile;
mod screen;
mod shop;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punctual::engine::StatsRequest;
use punctual::time::{Clock, SystemClock, Timestamp, pause, within};
use punctual::worker::Shutdown;
use punctual::{Job, JobId, JobState, Namespace, Queue, Worker};
use tokio::sync::oneshot;
use tokio::task::{JoinError, JoinSet};

use self::ledger::{Book, Entry, Ledger};
use self::live::Live;
use self::orders::Order;
use self::reconcile::Reconciliation;
use self::screen::{FRAME, Screen};
use self::shop::{CancelUnpaid, Shop, cancel_unpaid};
use crate::args::{Global, Listen, Session, listen_of};
use crate::connect::{Address, Make, Mode};
use crate::failure::{Exit, Failure, Result};
use crate::output::{count, counted};
use crate::signals::Signals;

const EXAMPLES: &str = "\
Examples:
  punctual demo                     3,000 orders in about 20 seconds
  punctual demo --stay --speed 60   80 seconds, and the dashboard stays open afterwards
  punctual demo --follow            print each effect as it is written to the ledger
  punctual demo -o json             one line of JSON at the end

Every order gets a job that cancels it when it is due, 15 or 30 minutes after its creation, here 240
times faster. A payment cancels that job by its unique key. Nine orders in a hundred are paid within a
second of their due, so payment and cancellation race. Jobs are in DIR/jobs, the shop's ledger is
DIR/ledger.jsonl. The first lines print the address of a dashboard. Kill the demo with -9 at any time
and start it again: it continues. At the end the demo reads the ledger and compares it with the orders.

Exit code 1 if an order ended both paid and cancelled, as neither, or was cancelled early.";

/// Watch 3,000 orders being cancelled on time, or paid first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where the demo keeps its jobs and its ledger
    #[arg(long, value_name = "DIR", default_value = "./punctual-demo")]
    dir: PathBuf,

    /// A file of orders [default: examples/orders/orders.jsonl]
    #[arg(long, value_name = "FILE.jsonl")]
    input: Option<PathBuf>,

    /// Only the first N orders
    #[arg(long, value_name = "N")]
    orders: Option<usize>,

    /// Seconds of the input per second
    #[arg(long, value_name = "X", default_value_t = 240.0)]
    speed: f64,

    /// Discard an earlier unfinished run
    #[arg(long)]
    fresh: bool,

    /// Address of the dashboard while the demo runs; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0", value_parser = listen_of)]
    listen: Listen,

    /// Keep the dashboard open at the end, until Ctrl-C
    #[arg(long)]
    stay: bool,

    /// Print each line of the ledger once it is on disk
    #[arg(long)]
    follow: bool,
}

impl Args {
    pub(crate) async fn run(self, global: &Global) -> Result<()> {
        if !(0.001..=1_000_000.0).contains(&self.speed) {
            return Err(Failure::usage(
                "--speed is out of range; use 0.001 to 1000000",
            ));
        }
        let (input, orders) = orders::read(self.input.as_deref(), self.orders)?;
        let session = self.open(global, &input, &orders).await?;
        let ledger_path = self.dir.join("ledger.jsonl");
        let ledger = Ledger::open(&ledger_path, self.follow)
            .map_err(|error| Failure::file("open", &ledger_path, &error))?;

        let info = session.engine.info().await?;
        let mut title = vec![
            format!("{} orders of {input}", count(orders.len() as u64)),
            format!(
                "jobs in {}, acknowledged by {}",
                self.dir.display(),
                info.durability
            ),
        ];
        let live = Live::open(&session, &self.listen).await?;
        title.push(format!("live on {}", live.url()));
        let earlier = ledger.book().runs.len() as u64;
        if earlier > 0 {
            title.push(format!("continuing after {}", counted(earlier, "run")));
        }
        let orders_len = orders.len() as u64;
        let mut screen = Screen::new(session.out, self.follow, title, orders_len);
        let setting = self.setting(global, &orders);
        self.serve(&session, &ledger, &orders, setting, &mut screen)
            .await?;

        let at = SystemClock.now();
        ledger.write(Entry::Closed { at }).await?;
        let sum = Reconciliation::of_file(&ledger_path, &orders, self.speed)
            .map_err(|error| Failure::file("read", &ledger_path, &error))?;
        let reported = announce(&session, &sum, &ledger_path, screen.elapsed());
        if self.stay {
            let note = format!("the dashboard stays on {} until Ctrl-C", live.url());
            session.out.note(note);
            Signals::new()?.next().await;
        }
        live.end().await;
        session.close().await?;
        reported
    }

    /// The engine, in the demo's own directory and namespace, and that directory made ready.
    async fn open(&self, global: &Global, input: &str, orders: &[Order]) -> Result<Session> {
        let make = |error| Failure::file("make", &self.dir, &error);
        let jobs = self.dir.join("jobs");
        let ledger = self.dir.join("ledger.jsonl");
        let setting = self.setting(global, orders);
        let earlier = std::fs::read(&ledger).map_or(Ok(Book::default()), |bytes| {
            Book::read(&bytes).map(|(book, _)| book)
        });
        let earlier = earlier.map_err(|error| Failure::file("read", &ledger, &error))?;
        std::fs::create_dir_all(&self.dir).map_err(make)?;
        // What was in memory went with its process.
        let kept = !matches!(global.address()?, Address::Memory(_));
        if self.fresh || earlier.closed || !kept {
            refuse_if_held(&jobs).await?;
            remove(&jobs)?;
            remove(&ledger)?;
        } else if earlier.setting.is_some_and(|other| other != setting) {
            return Err(Failure::usage(format!(
                "{} holds an unfinished run with other orders, speed or engine than {input}",
                self.dir.display()
            ))
            .hint("start it as before, discard it with --fresh, or name another --dir"));
        }
        let address = match &global.engine {
            Some(_) => global.address()?,
            None => Address::of_directory(jobs),
        };
        let namespace = global.namespace.clone().unwrap_or_else(|| "demo".into());
        let connection = address.open(Make::IfMissing, Mode::Hold).await?;
        Ok(Session::new(
            connection,
            Namespace::new(namespace)?,
            global.output(),
        ))
    }

    /// What must be the same for an unfinished run to go on.
    fn setting(&self, global: &Global, orders: &[Order]) -> String {
        let engine = global.engine.as_deref().unwrap_or("own");
        JobId::derived(engine, &format!("{} {orders:?}", self.speed)).to_string()
    }

    /// Runs the shop until every payment is delivered and no job is left.
    async fn serve(
        &self,
        session: &Session,
        ledger: &Ledger,
        orders: &[Order],
        setting: String,
        screen: &mut Screen,
    ) -> Result<()> {
        let queue = Queue::new(&session.engine).namespace(session.namespace.clone());
        let shop = Arc::new(Shop::new(queue, ledger.clone(), self.speed));
        shop.catch_up(orders).await?;
        let now = shop.open();
        ledger.write(Entry::Opened { at: now, setting }).await?;

        let mut tasks = JoinSet::new();
        let origin = self.origin(ledger, orders, now);
        for order in orders {
            let (shop, order) = (shop.clone(), order.clone());
            tasks.spawn(async move { shop.live(&order, origin).await });
        }
        let (stop, stopped) = oneshot::channel::<()>();
        let worker = Worker::new(&session.engine)
            .namespace(session.namespace.clone())
            .state(shop.clone())
            .handle(cancel_unpaid)
            .run_until(Shutdown::from(async move {
                let _ = stopped.await;
            }));
        let worker = tokio::spawn(worker);
        while !worker.is_finished() {
            match within(FRAME, tasks.join_next()).await {
                Some(Some(result)) => result.map_err(broken)??,
                Some(None) if !self.jobs_left(session).await? => break,
                Some(None) => pause(FRAME).await,
                None => {}
            }
            screen.show(&shop)?;
        }
        let _ = stop.send(());
        worker.await.map_err(broken)??;
        Ok(screen.end()?)
    }

    /// The instant here at which the first order is created, such that an unfinished run goes on
    /// with the order where it stopped.
    fn origin(&self, ledger: &Ledger, orders: &[Order], now: Timestamp) -> Timestamp {
        let book = ledger.book();
        let placed = |order: &&Order| {
            book.accounts
                .get(&order.number)
                .is_some_and(|account| account.placed.is_some())
        };
        let position = orders
            .iter()
            .filter(placed)
            .map(|order| order.created)
            .max();
        let passed = position.unwrap_or_default().div_f64(self.speed);
        Timestamp::from_micros(now.as_micros() - passed.as_micros() as u64)
    }

    async fn jobs_left(&self, session: &Session) -> Result<bool> {
        let request = StatsRequest::default().queues(vec![CancelUnpaid::QUEUE.into()]);
        let stats = session.engine.stats(&session.namespace, request).await?;
        let left =
            |counts: &punctual::engine::Counts| counts.pending() + counts.of(JobState::Active) > 0;
        Ok(stats.queues.iter().any(|queue| left(&queue.counts)))
    }
}

fn broken(error: JoinError) -> Failure {
    Failure::new(Exit::Failed, "internal", error.to_string())
}

/// Another demo may be at work in there.
async fn refuse_if_held(jobs: &Path) -> Result<()> {
    match Address::of_directory(jobs)
        .open(Make::Never, Mode::Hold)
        .await
    {
        Err(failure) if failure.exit() == Exit::Unavailable => Err(failure),
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::file("remove", path, &error))
        }
        _ => Ok(()),
    }
}

fn announce(session: &Session, sum: &Reconciliation, ledger: &Path, took: Duration) -> Result<()> {
    if session.out.is_json() {
        session.out.json(&sum.as_json())?;
    } else {
        let out = session.out;
        out.line(format!(
            "Reconciliation of {} after {:.1} s",
            ledger.display(),
            took.as_secs_f64()
        ))?;
        sum.lines().iter().try_for_each(|line| out.line(line))?;
        out.line("")?;
        sum.bars()
            .iter()
            .try_for_each(|line| out.line(format!("  {line}")))?;
        out.line("")?;
        out.line(if sum.is_good() {
            "Every order ended paid or cancelled, none both, none neither, none early."
        } else {
            "A guarantee was broken: see the lines that must be 0."
        })?;
    }
    if sum.is_good() {
        Ok(())
    } else {
        Err(Failure::reported(Exit::Failed))
    }
}
