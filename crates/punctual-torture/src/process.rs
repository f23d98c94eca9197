//! Processes of a round: started again whenever they end, until the round stops them.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use punctual::time::{millis, pause, seconds};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{JoinHandle, block_in_place};

use crate::call_log::History;
use crate::event::Event;
use crate::waits::Waits;

/// The arguments of a process, by its name.
pub(crate) type Arguments = Box<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// How one is started.
pub(crate) struct Recipe {
    /// Its name; its number of starts is added.
    pub(crate) name: String,
    /// A program that does not end with this one by itself; none is this one under another command.
    pub(crate) program: Option<PathBuf>,
    /// The arguments for its name.
    pub(crate) arguments: Arguments,
    /// Variables of its environment.
    pub(crate) environment: Vec<(String, OsString)>,
    /// Where its complaints go.
    pub(crate) log: PathBuf,
    /// Whether it says a line once it is ready.
    pub(crate) says_ready: bool,
    /// How long it is left alone after it has ended by itself.
    pub(crate) again_after: Duration,
    /// Whether it is over once it has ended in good order by itself.
    pub(crate) ends_by_itself: bool,
}

/// A process that is kept running.
pub(crate) struct Kept {
    name: String,
    orders: mpsc::Sender<(Order, oneshot::Sender<bool>)>,
    task: JoinHandle<()>,
}

/// What is done while a process is down.
type Meanwhile = Box<dyn FnOnce() -> bool + Send>;

enum Order {
    /// Ends it as a kill does, and starts it again after the span.
    Kill(Duration),
    /// Ends it as a kill does, does something while it is down, and starts it again.
    While(Meanwhile),
    /// Asks it to end, and starts it again.
    Terminate,
    /// Stops it for the span.
    Stop(Duration),
    /// Asks it to end, and lets it rest.
    End,
    /// Ends it as a kill does, and lets it rest.
    KillForGood,
}

/// A process that says when it is ready does so by then, whatever it has to read first.
const READY_MAX: Duration = seconds(60);
/// One that is asked to end is killed after that long.
const ENDS_MAX: Duration = seconds(10);
/// One that was killed is gone by then, whatever its disk is at.
const GONE_MAX: Duration = seconds(60);

impl Kept {
    /// Starts it.
    pub(crate) fn start(recipe: Recipe, history: Arc<History>, waits: Arc<Waits>) -> Self {
        let (orders, taken) = mpsc::channel(8);
        let name = recipe.name.clone();
        let supervisor = Supervisor {
            recipe,
            history,
            waits,
            taken,
            starts: AtomicU64::new(0),
        };
        Self {
            name,
            orders,
            task: tokio::spawn(supervisor.keep()),
        }
    }

    /// Kills it; answers once it runs again, and whether it ran before.
    pub(crate) async fn kill(&self, quiet_periods: Duration) -> bool {
        self.order(Order::Kill(quiet_periods)).await
    }

    /// Kills it and does something before it is started again; answers whether that was done.
    pub(crate) async fn kill_while(
        &self,
        meanwhile: impl FnOnce() -> bool + Send + 'static,
    ) -> bool {
        self.order(Order::While(Box::new(meanwhile))).await
    }

    /// Asks it to end by a signal; answers once it runs again.
    pub(crate) async fn terminate(&self) -> bool {
        self.order(Order::Terminate).await
    }

    /// Stops it for a span.
    pub(crate) async fn stop(&self, span: Duration) -> bool {
        self.order(Order::Stop(span)).await
    }

    /// Asks it to end, and waits until it has.
    pub(crate) async fn end(self) {
        self.order(Order::End).await;
        drop(self.orders);
        let _ = self.task.await;
    }

    /// Kills it, and does not start it again.
    pub(crate) async fn kill_for_good(self) {
        self.order(Order::KillForGood).await;
        drop(self.orders);
        let _ = self.task.await;
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether it has ended by itself for good.
    pub(crate) fn is_over(&self) -> bool {
        self.task.is_finished()
    }

    async fn order(&self, order: Order) -> bool {
        let (answer, answered) = oneshot::channel();
        let _ = self.orders.send((order, answer)).await;
        answered.await.unwrap_or(false)
    }
}

struct Supervisor {
    recipe: Recipe,
    history: Arc<History>,
    waits: Arc<Waits>,
    taken: mpsc::Receiver<(Order, oneshot::Sender<bool>)>,
    starts: AtomicU64,
}

impl Supervisor {
    async fn keep(mut self) {
        let (mut to_answer, mut done): (Option<oneshot::Sender<bool>>, bool) = (None, true);
        loop {
            // Its input is held open: it ends with the process that started it.
            let (name, mut child, input) = match self.spawn().await {
                Ok(started) => started,
                Err(error) => panic!("{} does not start: {error}", self.recipe.name),
            };
            if let Some(answer) = to_answer.take() {
                let _ = answer.send(std::mem::replace(&mut done, true));
            }
            let (quiet_periods, answer, end) = loop {
                let order = tokio::select! {
                    status = child.wait() => {
                        let may_end = self.recipe.ends_by_itself;
                        let is_over = may_end && is_well(&status);
                        if !is_over {
                            self.ended(&name, &status);
                        }
                        break (self.recipe.again_after, None, is_over);
                    }
                    order = self.taken.recv() => order,
                };
                let Some((order, answer)) = order else {
                    break (millis(0), None, true);
                };
                match order {
                    Order::Stop(span) => {
                        let stopped = signal(&child, Signal::STOP);
                        pause(span).await;
                        signal(&child, Signal::CONT);
                        let _ = answer.send(stopped);
                    }
                    Order::Kill(quiet_periods) => {
                        let _ = child.start_kill();
                        break (quiet_periods, Some(answer), false);
                    }
                    Order::While(deed) => {
                        let _ = child.start_kill();
                        let _ = child.wait().await;
                        done = block_in_place(deed);
                        break (millis(0), Some(answer), false);
                    }
                    Order::Terminate => {
                        self.terminate(&name, &mut child).await;
                        break (millis(0), Some(answer), false);
                    }
                    Order::End => {
                        self.terminate(&name, &mut child).await;
                        break (millis(0), Some(answer), true);
                    }
                    Order::KillForGood => break (millis(0), Some(answer), true),
                }
            };
            let _ = child.start_kill();
            let what = format!("{name}, which was killed, to be gone");
            let _ = self.waits.on(GONE_MAX, what, child.wait()).await;
            say_gone(input).await;
            self.history.note(Event::Gone { process: name });
            if end {
                if let Some(answer) = answer {
                    let _ = answer.send(true);
                }
                return;
            }
            to_answer = answer;
            pause(quiet_periods).await;
        }
    }

    /// Asks it to end, which it is to do in time and in good order.
    async fn terminate(&self, name: &str, child: &mut Child) {
        signal(child, Signal::TERM);
        let what = format!("{name}, which was asked to, to end");
        if let Some(status) = self.waits.on(ENDS_MAX, what, child.wait()).await
            && !is_well(&status)
        {
            self.ended(name, &status);
        }
    }

    fn ended(&self, name: &str, status: &io::Result<ExitStatus>) {
        let how = match status {
            Ok(status) => status.to_string(),
            Err(error) => error.to_string(),
        };
        let process = name.to_owned();
        self.history.note(Event::Ended { process, how });
    }

    async fn spawn(&self) -> io::Result<(String, Child, Option<ChildStdin>)> {
        let start = self.starts.fetch_add(1, Relaxed);
        let name = format!("{}.{start}", self.recipe.name);
        let mut command = match &self.recipe.program {
            None => Command::new(std::env::current_exe()?),
            Some(program) => {
                let mut watched = Command::new("sh");
                watched.args(["-c", WITH_WATCHER, "sh"]).arg(program);
                watched
            }
        };
        command
            .args((self.recipe.arguments)(&name))
            .envs(self.recipe.environment.iter().cloned());
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&self.recipe.log)?;
        command
            .stdin(Stdio::piped())
            .stderr(log)
            .env("RUST_BACKTRACE", "0")
            .kill_on_drop(true);
        command.stdout(if self.recipe.says_ready {
            Stdio::piped()
        } else {
            Stdio::null()
        });
        let mut child = command.spawn()?;
        if let Some(output) = child.stdout.take() {
            let mut line = String::new();
            let mut output = BufReader::new(output);
            let ready = output.read_line(&mut line);
            let what = format!("{name} to say that it is ready");
            if let Some(read) = self.waits.on(READY_MAX, what, ready).await {
                read?;
            }
        }
        let input = child.stdin.take();
        Ok((name, child, input))
    }
}

/// Kills a program once the one that started it is gone, unless that says first that it has ended:
/// another process may have its number then.
const WITH_WATCHER: &str = r#"exec 3<&0
( read -r gone || kill -s KILL $$ ) <&3 >/dev/null 2>&1 &
exec "$@" </dev/null 3<&-"#;

/// Ends what watches over a process that has ended; others end by the end of their input.
async fn say_gone(input: Option<ChildStdin>) {
    if let Some(mut input) = input {
        let _ = input.write_all(b"gone\n").await;
    }
}

fn is_well(status: &io::Result<ExitStatus>) -> bool {
    status.as_ref().is_ok_and(ExitStatus::success)
}

/// Whether the signal was sent: a child that has ended takes none.
fn signal(child: &Child, signal: Signal) -> bool {
    let id = child.id().and_then(|id| Pid::from_raw(id as i32));
    id.is_some_and(|id| kill_process(id, signal).is_ok())
}
