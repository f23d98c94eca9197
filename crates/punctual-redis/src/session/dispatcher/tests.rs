//! Unit tests of `dispatcher`.

use std::sync::Mutex;

use punctual::time::seconds;
use punctual::{ErrorKind, Namespace};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::tcp::OwnedReadHalf;
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::Options;
use crate::session::shards::Shards;

/// What a server does with a command.
enum Says {
    Reply(String),
    /// It takes the command, and the connection breaks before its answer.
    Breaks,
    Nothing,
}

type Script = Arc<Mutex<dyn FnMut(&[String]) -> Says + Send>>;

/// A server that says to each command what a test gives it; its port.
async fn server(says: impl FnMut(&[String]) -> Says + Send + 'static) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await;
    let listener = listener.expect("the loopback has a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let script: Script = Arc::new(Mutex::new(says));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, script.clone()));
        }
    });
    port
}

async fn serve(stream: TcpStream, script: Script) {
    let (from, mut to) = stream.into_split();
    let mut from = BufReader::new(from);
    while let Some(words) = command(&mut from).await {
        let says = (script.lock().expect("no panic"))(&words);
        match says {
            Says::Reply(text) => to.write_all(text.as_bytes()).await.expect("it listens"),
            Says::Breaks => return,
            Says::Nothing => {}
        }
    }
}

async fn command(from: &mut BufReader<OwnedReadHalf>) -> Option<Vec<String>> {
    let mut words = Vec::new();
    for _ in 0..number(from).await? {
        let mut word = vec![0; number(from).await? + 2];
        from.read_exact(&mut word).await.ok()?;
        word.truncate(word.len() - 2);
        words.push(String::from_utf8_lossy(&word).into_owned());
    }
    Some(words)
}

/// Of a line such as `*3` or `$12`.
async fn number(from: &mut BufReader<OwnedReadHalf>) -> Option<usize> {
    let mut line = String::new();
    from.read_line(&mut line).await.ok()?;
    line.get(1..)?.trim().parse().ok()
}

fn post_to(port: u16) -> Dispatcher {
    let options: Options = format!("redis://127.0.0.1:{port}").parse().expect("good");
    let library = Library::production();
    let servers = Servers::new(&options, library.clone()).expect("no files are read");
    Dispatcher {
        servers: Arc::new(servers),
        library: Arc::new(library),
        server_clock: ServerClock::default(),
    }
}

/// What two settles that leave together are answered.
async fn two_settles(port: u16, deadline: Duration) -> [Result<Answer>; 2] {
    let shard = Shards::default().first(&Namespace::default());
    let deadline = Deadline::within(deadline);
    let (calls, answers): (Vec<_>, Vec<_>) = (0..2)
        .map(|_| {
            let (answer, answered) = oneshot::channel();
            let call = Call {
                verb: "settle",
                body: Vec::new().into(),
                cost_us: 1,
                deadline,
                answer,
            };
            (call, answered)
        })
        .unzip();
    let post = post_to(port);
    post.send_batch(&shard, CallClass::Leases, calls).await;
    let answers = answers.into_iter().map(|mut it| it.try_recv());
    let answers: Vec<_> = answers.map(|it| it.expect("it is answered")).collect();
    answers.try_into().expect("two")
}

fn version(number: i64) -> Says {
    Says::Reply(format!(":{number}\r\n"))
}

const REFUSAL: &str = "PUNCTUAL invalid_input flags are not known";

/// What is answered to two calls: as `how` says, 0 well or 1 refused.
fn each(how: u8, said: &str) -> Says {
    let how = char::from(how);
    let bytes = said.len();
    let one = format!("${bytes}\r\n{said}\r\n");
    Says::Reply(format!("*3\r\n$2\r\n{how}{how}\r\n{one}{one}"))
}

/// The first sending may have been done, whatever refused the second: a worker whose lease is then
/// answered as lost cannot know by what.
#[tokio::test]
async fn what_was_sent_before_older_functions_refused_it_counts_as_sent_again() {
    for breaks in [true, false] {
        let today = Library::production().version();
        let (mut is_older, mut sent, refused) = (false, 0, 1 + u32::from(breaks));
        let port = server(move |words| match words {
            [_, name, ..] if name == "punctual_1_version" => {
                version(if is_older { today - 1 } else { today })
            }
            [_, name, ..] if name == "punctual_1_calls" => {
                sent += 1;
                is_older = sent == refused;
                match sent {
                    _ if sent < refused => Says::Breaks,
                    _ if is_older => each(1, REFUSAL),
                    _ => each(0, "answered"),
                }
            }
            [word, ..] if word == "FUNCTION" => {
                is_older = false;
                Says::Reply("+punctual_1\r\n".into())
            }
            _ => Says::Reply("$0\r\n\r\n".into()),
        });
        for answer in two_settles(port.await, seconds(30)).await {
            let answer = answer.expect("it is sent again");
            assert_eq!(answer.bytes, b"answered");
            assert_eq!(answer.is_repeat, breaks, "a refusal has changed nothing");
        }
    }
}

/// The first sending may have been done: what then refuses the second says nothing of it.
#[tokio::test]
async fn calls_that_left_together_and_were_sent_before_do_not_count_as_refused() {
    for breaks in [true, false] {
        let mut sent = 0;
        let port = server(move |words| match words {
            [_, name, ..] if name == "punctual_1_version" => {
                version(Library::production().version())
            }
            [_, name, ..] if name == "punctual_1_calls" => {
                sent += 1;
                match breaks && sent == 1 {
                    true => Says::Breaks,
                    false => Says::Reply("-MISCONF it cannot save\r\n".into()),
                }
            }
            _ => Says::Reply("$0\r\n\r\n".into()),
        });
        for answer in two_settles(port.await, seconds(30)).await {
            let error = answer.expect_err("it is refused");
            let (kind, is_open) = match breaks {
                true => (ErrorKind::EngineUnavailable, true),
                false => (ErrorKind::EngineFull, false),
            };
            assert_eq!(error.kind(), kind, "{error}");
            assert_eq!(error.message().contains("unknown"), is_open, "{error}");
        }
    }
}

/// Whether functions are older is asked within the call's own time: others of its class wait behind
/// it.
#[tokio::test]
async fn a_server_without_an_answer_for_its_version_costs_one_deadline() {
    let mut asked = 0;
    let port = server(move |words| match words {
        [_, name, ..] if name == "punctual_1_version" => {
            asked += 1;
            match asked {
                1 => version(Library::production().version()),
                _ => Says::Nothing,
            }
        }
        [_, name, ..] if name == "punctual_1_calls" => each(1, REFUSAL),
        _ => Says::Reply("$0\r\n\r\n".into()),
    });
    let port = port.await;
    // Who asks without a deadline of his own gives up after two seconds.
    let answered = within(millis(1_900), two_settles(port, seconds(1))).await;
    for answer in answered.expect("by the deadline") {
        let error = answer.expect_err("it was refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}
