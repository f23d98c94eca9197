//! The side of the lines on which the other system is: messages go out, answers come in.

use std::collections::HashMap;
use std::fmt;

use punctual::time::{seconds, within};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Stdout};
use tokio::sync::mpsc;

/// What went wrong, for a person.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// A text that says what failed, and why.
#[derive(Debug)]
pub(crate) struct Failure {
    text: String,
    /// No retry mends it: a person has to change a setting.
    pub(crate) is_setting: bool,
}

impl Failure {
    /// An outage, or anything that may be over at the next try.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            is_setting: false,
        }
    }

    pub(crate) fn of(what: &str, error: impl fmt::Display) -> Self {
        Self::new(format!("{what}: {error}"))
    }

    /// A setting is wrong.
    pub(crate) fn setting(text: impl Into<String>) -> Self {
        Self {
            is_setting: true,
            ..Self::new(text)
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Lines of standard input. The process ends when its parent is gone.
fn lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(1_024);
    tokio::spawn(async move {
        let mut input = BufReader::new(tokio::io::stdin()).lines();
        while let Ok(Some(line)) = input.next_line().await {
            if sender.send(line).await.is_err() {
                return;
            }
        }
        std::process::exit(0);
    });
    lines
}

/// A source at the end of lines.
pub(crate) struct Host {
    output: Stdout,
    answers: mpsc::Receiver<String>,
}

/// A message: its name, and its job as JSON.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) job: String,
    /// Why it is no job, if that is known here.
    pub(crate) bad: Option<String>,
}

#[derive(Deserialize)]
struct Answer {
    name: String,
    refused: Option<String>,
}

impl Host {
    pub(crate) fn start() -> Self {
        Self {
            output: tokio::io::stdout(),
            answers: lines(),
        }
    }

    /// Writes messages, and waits until every one is stored or refused; answers why by name.
    pub(crate) async fn hand_over(&mut self, lines: &[Line]) -> Result<HashMap<String, String>> {
        let mut text = String::new();
        for line in lines {
            // A job that is no JSON would break the line: it goes as a text, and is refused.
            let job = match serde_json::from_str::<&RawValue>(&line.job) {
                // Between the parts of a document an end of a line is a blank; texts have none.
                Ok(job) => job.get().replace(['\n', '\r'], " "),
                Err(_) => serde_json::Value::from(line.job.as_str()).to_string(),
            };
            let name = serde_json::Value::from(line.name.as_str());
            let bad = line.bad.as_ref().map_or(String::new(), |why| {
                format!(",\"bad\":{}", serde_json::Value::from(why.as_str()))
            });
            text += &format!("{{\"name\":{name},\"job\":{job}{bad}}}\n");
        }
        // Answers come while lines are written still: both ends would wait for each other if
        // neither read.
        let written = write(&mut self.output, &text);
        let ((), refused) = tokio::try_join!(written, answers_to(&mut self.answers, lines))?;
        Ok(refused)
    }

    /// Says something of the source.
    pub(crate) async fn say(&mut self, document: serde_json::Value) -> Result<()> {
        write(&mut self.output, &format!("{document}\n")).await
    }
}

/// Why messages were refused, by name, once every one is answered.
async fn answers_to(
    answers: &mut mpsc::Receiver<String>,
    lines: &[Line],
) -> Result<HashMap<String, String>> {
    let mut refused = HashMap::new();
    let mut waiting: HashMap<&str, usize> = HashMap::new();
    for line in lines {
        *waiting.entry(&line.name).or_default() += 1;
    }
    for _ in lines {
        let answer = next_answer(answers).await?;
        // What is answered twice would stand for a message that is not stored.
        match waiting.get_mut(answer.name.as_str()) {
            Some(left) if *left > 0 => *left -= 1,
            _ => {
                let text = format!("the relay answered {:?}, which does not wait", answer.name);
                return Err(Failure::new(text));
            }
        }
        if let Some(why) = answer.refused {
            refused.insert(answer.name, why);
        }
    }
    Ok(refused)
}

async fn next_answer(answers: &mut mpsc::Receiver<String>) -> Result<Answer> {
    // While the engine is full this process holds a transaction, which shall not last.
    let line = within(seconds(30), answers.recv()).await.flatten();
    let line = line.ok_or_else(|| {
        Failure::new("no answer from the relay in 30 s; is the engine full? It starts again")
    })?;
    serde_json::from_str(&line).map_err(|error| Failure::of("the relay's answer", error))
}

async fn write(output: &mut Stdout, text: &str) -> Result<()> {
    let written = output.write_all(text.as_bytes()).await;
    let written = match written {
        Ok(()) => output.flush().await,
        error => error,
    };
    written.map_err(|error| Failure::of("the relay reads no more", error))
}

/// A sink at the end of lines.
pub(crate) struct SinkHost {
    output: Stdout,
    jobs: mpsc::Receiver<String>,
}

/// A job that is to go out.
#[derive(Deserialize)]
pub(crate) struct Put {
    pub(crate) id: String,
    pub(crate) job: Out,
}

/// What a broker needs of a job.
#[derive(Deserialize)]
pub(crate) struct Out {
    /// The very bytes, if they are JSON.
    pub(crate) payload: Option<Box<RawValue>>,
    pub(crate) payload_base64: Option<String>,
    pub(crate) content_type: Option<String>,
    pub(crate) headers: Option<serde_json::Value>,
}

impl SinkHost {
    pub(crate) fn start() -> Self {
        Self {
            output: tokio::io::stdout(),
            jobs: lines(),
        }
    }

    /// The next job.
    pub(crate) async fn next(&mut self) -> Result<Put> {
        let Some(line) = self.jobs.recv().await else {
            return std::future::pending().await;
        };
        serde_json::from_str(&line).map_err(|error| Failure::of("a job of the relay", error))
    }

    /// Answers one: done, or the error and whether no retry can mend it.
    pub(crate) async fn answer(
        &mut self,
        id: &str,
        ended: Result<(), (String, bool)>,
    ) -> Result<()> {
        let answer = match ended {
            Ok(()) => serde_json::json!({"id": id, "done": true}),
            Err((error, permanent)) => {
                serde_json::json!({"id": id, "error": error, "permanent": permanent})
            }
        };
        write(&mut self.output, &format!("{answer}\n")).await
    }
}
