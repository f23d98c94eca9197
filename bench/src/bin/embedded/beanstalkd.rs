//! A beanstalkd server as the rival of the embedded engine.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A server that syncs every put, as `-f 0` says.
pub(crate) struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    pub(crate) fn start(directory: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
        let address = free.expect("a free port");
        let process = Command::new("beanstalkd")
            .args(["-l", "127.0.0.1", "-f", "0"])
            .args(["-p", &address.port().to_string(), "-b"])
            .arg(directory)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                eprintln!("beanstalkd cannot be started ({error}); install it, on Debian and Ubuntu with: apt-get install beanstalkd");
                std::process::exit(1)
            });
        let server = Self { process, address };
        // It listens within milliseconds; a refused connection asks again.
        let listens = (0..1_000_000).any(|_| TcpStream::connect(address).is_ok());
        assert!(listens, "beanstalkd does not listen on {address}");
        server
    }

    /// Puts jobs, each after the answer to the last.
    pub(crate) fn put(&self, jobs: usize, payload: &[u8]) -> std::io::Result<()> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_nodelay(true)?;
        let mut answers = BufReader::new(stream.try_clone()?);
        let mut put = format!("put 1024 0 60 {}\r\n", payload.len()).into_bytes();
        put.extend_from_slice(payload);
        put.extend_from_slice(b"\r\n");
        let mut answer = String::new();
        for _ in 0..jobs {
            stream.write_all(&put)?;
            answer.clear();
            answers.read_line(&mut answer)?;
            if !answer.starts_with("INSERTED") {
                return Err(std::io::Error::other(answer));
            }
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It is this one's own, and its data are thrown away.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
