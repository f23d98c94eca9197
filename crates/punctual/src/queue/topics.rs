//! The producer's handle to topics: subscriptions, and messages that are published to them.

use std::future::IntoFuture;
use std::sync::Arc;

use futures_util::future::BoxFuture;

use super::{SENDS_MAX, is_unknown, published};
use crate::Queue;
use crate::backoff::Backoff;
use crate::engine::{Control, Controlled, EnqueueVerdict, Guard, RecordValue, VersionedRecord};
use crate::error::{Error, ErrorKind, Result};
use crate::job::{Effect, Job, JobId, NewJob};
use crate::sync::Lock;
use crate::time::{Timestamp, millis, pause};
use crate::topic::{Copied, Matcher, Message, Subscription, Subscriptions, TOPICS};

/// Reads and writes after which a change that others disturb is given up.
const TRIES_MAX: u32 = 20;

impl Queue {
    /// The subscriptions of the namespace.
    ///
    /// ```
    /// use punctual::topic::{Filter, Subscription};
    /// use punctual::{MemoryEngine, NewJob, Queue};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let queue = Queue::new(MemoryEngine::new());
    /// let german = Filter::header("country").one_of(["de", "at"]);
    /// let mail = Subscription::to("mail").filter(german).name("mailer");
    /// queue.topics().subscribe("orders.*.paid", mail).await?;
    ///
    /// let paid = NewJob::new("orders", r#"{"order":7}"#);
    /// let published = queue
    ///     .publish_job("orders.eu.paid", paid)
    ///     .header("country", "de")
    ///     .await?;
    /// assert_eq!((published.matched, &*published.copies[0].queue), (1, "mail"));
    /// # Ok::<(), punctual::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn topics(&self) -> Topics {
        Topics {
            queue: self.clone(),
            expected: None,
        }
    }

    /// Publishes a typed job under a subject when awaited; the options come in between. Each
    /// subscription that matches has a copy enqueued into its queue, or none has.
    pub fn publish<J: Job>(&self, subject: impl Into<String>, job: J) -> Publish {
        Publish {
            queue: self.clone(),
            subject: subject.into(),
            job: NewJob::of(&job),
            is_typed: true,
        }
    }

    /// Publishes an untyped job: where its kind is the name of its own queue, that of a copy is the
    /// name of the subscription's.
    pub fn publish_job(&self, subject: impl Into<String>, job: NewJob) -> Publish {
        Publish {
            queue: self.clone(),
            subject: subject.into(),
            job: Ok(job),
            is_typed: false,
        }
    }

    /// The subscriptions as they were last read; read now if they never were.
    pub(crate) async fn matcher(&self) -> Result<Arc<Matcher>> {
        let known = self.0.topics.locked().clone();
        match known {
            Some(known) => Ok(known),
            None => self.read_matcher().await,
        }
    }

    /// The subscriptions as they are now.
    pub(crate) async fn read_matcher(&self) -> Result<Arc<Matcher>> {
        let name = TOPICS.to_owned();
        match self.control_topics(Control::Read { name }).await? {
            Controlled::Record(record) => self.learn_topics(record.as_ref()),
            _ => Err(strange()),
        }
    }

    /// Lets the subscriptions be read anew when they are needed next.
    pub(crate) fn forget_matcher(&self) {
        *self.0.topics.locked() = None;
    }

    fn learn_topics(&self, record: Option<&VersionedRecord>) -> Result<Arc<Matcher>> {
        let matcher = Arc::new(Matcher::of(record)?);
        *self.0.topics.locked() = Some(matcher.clone());
        Ok(matcher)
    }

    /// Engine time, if a message's due can be compared with it only.
    pub(crate) async fn time_for(
        &self,
        matcher: &Matcher,
        message: &Message,
    ) -> Result<Option<Timestamp>> {
        match matcher.needs_due() && message.is_due_at() {
            true => Ok(Some(self.engine().info().await?.now)),
            false => Ok(None),
        }
    }

    async fn control_topics(&self, control: Control) -> Result<Controlled> {
        let inner = &*self.0;
        let controlled = inner.engine.control(&inner.namespace, control).await;
        controlled.map_err(|error| error.operation("topics"))
    }

    /// Sends the copies of a message under the version that they were made by, and again under a
    /// later one.
    async fn send_copies(&self, message: &Message) -> Result<Published> {
        let limits = self.engine_limits().await?;
        message.check(&limits)?;
        let mut matcher = self.matcher().await?;
        let mut backoff = Backoff::new(millis(20), millis(1_000));
        let (mut tries, mut sends) = (1, 1);
        loop {
            let now = self.time_for(&matcher, message).await?;
            let (copied, effects): (Vec<Copied>, Vec<Effect>) =
                message.copies(&matcher, now).into_iter().unzip();
            let guarded = Control::Guarded {
                guard: Guard::new(TOPICS, matcher.version()),
                value: None,
                effects,
            };
            match self.control_topics(guarded).await {
                Ok(Controlled::Guarded { version, verdicts }) => {
                    let is_matched = !copied.is_empty();
                    published(if is_matched { "matched" } else { "unmatched" }, 1);
                    return Ok(Published::new(message.job().id, version, copied, verdicts));
                }
                Ok(Controlled::GuardConflict(_)) if tries == TRIES_MAX => {
                    let message = "publish: subscriptions changed all the time; publish again \
                                   under the same id";
                    return Err(Error::new(ErrorKind::Conflict, message));
                }
                Ok(Controlled::GuardConflict(record)) => {
                    tries += 1;
                    matcher = self.learn_topics(record.as_ref())?;
                }
                Ok(_) => return Err(strange()),
                Err(error) if is_unknown(&error) && sends < SENDS_MAX => {
                    let pause_for = backoff.pause();
                    tracing::warn!(%error, sends, ?pause_for, "publish is sent again");
                    pause(pause_for).await;
                    sends += 1;
                }
                Err(error) => return Err(error.with("sends", sends)),
            }
        }
    }
}

/// The subscriptions of a namespace.
#[derive(Debug, Clone)]
pub struct Topics {
    queue: Queue,
    expected: Option<u64>,
}

/// A subscription, and why a message would not match it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct MatchLine {
    /// The subscription.
    pub subscription: Subscription,
    /// Why it would not; `None` if it would.
    pub why_not: Option<String>,
}

impl Topics {
    /// Writes only if the subscriptions of the namespace have that version: see
    /// [`version`](Self::version). Then a change is refused (`version_conflict`) that another
    /// client's came before.
    #[must_use]
    pub fn if_version(mut self, version: u64) -> Self {
        self.expected = Some(version);
        self
    }

    /// The version of the subscriptions of the namespace; 0 if there never were any. Each write has
    /// a larger one.
    pub async fn version(&self) -> Result<u64> {
        self.queue.read_matcher().await.map(|all| all.version())
    }

    /// Subscribes: a copy of each message that is published from now on and matches goes to the
    /// subscription's queue. Whether that changed anything: safe at every start of a program.
    ///
    /// Patterns are tokens between dots: `*` is any one token, `>` at the end one or more. A
    /// subscription of the same name is replaced.
    pub async fn subscribe(
        &self,
        pattern: impl Into<String>,
        subscription: Subscription,
    ) -> Result<bool> {
        let subscription = subscription.matching(pattern);
        subscription.check()?;
        self.change(|all| all.put(subscription.clone())).await
    }

    /// Removes a subscription; whether there was one. What lies in its queue stays.
    pub async fn unsubscribe(&self, name: &str) -> Result<bool> {
        self.change(|all| all.remove(name)).await
    }

    /// The subscriptions in order of their names.
    pub async fn list(&self) -> Result<Vec<Subscription>> {
        let matcher = self.queue.read_matcher().await?;
        Ok(matcher.subscriptions().to_vec())
    }

    /// Every subscription, with why a message would not match it; nothing is stored.
    pub async fn explain(&self, subject: impl Into<String>, job: NewJob) -> Result<Vec<MatchLine>> {
        let message = Message::new(subject, job)?;
        message.check(&self.queue.engine_limits().await?)?;
        let matcher = self.queue.read_matcher().await?;
        let now = self.queue.time_for(&matcher, &message).await?;
        let lines = matcher.explain(&message, message.due_in(now)).into_iter();
        let line = |line: crate::topic::Match<'_>| MatchLine {
            subscription: line.subscription.clone(),
            why_not: line.why_not,
        };
        Ok(lines.map(line).collect())
    }

    /// Reads the subscriptions and writes what becomes of them, again if another client wrote in
    /// between.
    async fn change(&self, change: impl Fn(&mut Subscriptions) -> bool) -> Result<bool> {
        let mut tries = 1;
        loop {
            let matcher = self.queue.read_matcher().await?;
            Control::expect_version(TOPICS, self.expected, matcher.version())
                .map_err(|error| error.operation("topics"))?;
            let mut all = Subscriptions {
                subscriptions: matcher.subscriptions().to_vec(),
            };
            let changed = change(&mut all);
            // Shards that a write before did not reach get it with this one.
            if !changed && self.queue.engine().info().await?.shards == 1 {
                return Ok(false);
            }
            let write = Control::Write {
                name: TOPICS.into(),
                expected: matcher.version(),
                value: Some(RecordValue::Opaque(all.write()?)),
            };
            match self.queue.control_topics(write).await {
                Ok(Controlled::Written(version)) => {
                    *self.queue.0.topics.locked() = Some(Arc::new(Matcher::new(version, all)));
                    return Ok(changed);
                }
                Ok(_) => return Err(strange()),
                // With a version that was asked for, the next turn refuses.
                Err(error) if error.kind() == ErrorKind::VersionConflict && tries < TRIES_MAX => {
                    tries += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A message on its way: set options, then await it.
#[must_use = "nothing is published until it is awaited"]
#[derive(Debug)]
pub struct Publish {
    queue: Queue,
    subject: String,
    job: Result<NewJob>,
    is_typed: bool,
}

impl Publish {
    pub(super) fn edit(mut self, change: impl FnOnce(&mut NewJob)) -> Self {
        if let Ok(job) = &mut self.job {
            change(job);
        }
        self
    }

    async fn send(self) -> Result<Published> {
        let mut message = Message::new(self.subject, self.job?)?;
        if self.is_typed {
            message = message.of_kind();
        }
        self.queue.send_copies(&message).await
    }
}

impl IntoFuture for Publish {
    type Output = Result<Published>;
    type IntoFuture = BoxFuture<'static, Self::Output>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async {
            self.send()
                .await
                .map_err(|error| error.operation("publish"))
        })
    }
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Published {
    /// The id of the message.
    pub id: JobId,
    /// The version of the subscriptions that it was matched with.
    pub version: u64,
    /// How many subscriptions it matched: 0 if none does.
    pub matched: usize,
    /// One per subscription that it matched, in order of their names.
    pub copies: Vec<Copy>,
}

/// The copy of a message for one subscription.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Copy {
    /// The name of the subscription.
    pub subscription: String,
    /// Its queue.
    pub queue: String,
    /// The id of the copy; `None` if a job was cancelled instead.
    pub id: Option<JobId>,
    /// What became of it; `None` for a cancel, and for a copy that is still on its way to another
    /// shard: it is kept and will arrive.
    pub verdict: Option<EnqueueVerdict>,
}

impl Published {
    fn new(
        id: JobId,
        version: u64,
        copied: Vec<Copied>,
        verdicts: Vec<Option<EnqueueVerdict>>,
    ) -> Self {
        let copies = copied.into_iter().zip(verdicts);
        let copy = |(copied, verdict): (Copied, _)| Copy {
            subscription: copied.subscription,
            queue: copied.queue,
            id: copied.id,
            verdict,
        };
        let copies: Vec<Copy> = copies.map(copy).collect();
        Self {
            id,
            version,
            matched: copies.len(),
            copies,
        }
    }
}

fn strange() -> Error {
    Error::new(
        ErrorKind::Internal,
        "the engine answered another call; please report it",
    )
}
