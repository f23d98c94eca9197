use super::TestServer;

/// A master with two replicas, and three sentinels who watch it.
#[derive(Debug)]
pub struct TestSentinels {
    servers: Vec<TestServer>,
    sentinels: Vec<TestServer>,
    /// The port of the master that was stopped.
    stopped: Option<u16>,
    /// What the servers keep on disk.
    keeping: &'static [&'static str],
}

/// What a server has got from its master as a whole it keeps all the same, and starts with.
const KEEP_NOTHING: [&str; 2] = ["--save", ""];

impl TestSentinels {
    /// Servers that write nothing down. Answers once the replicas have the data and every sentinel knows all of
    /// them.
    pub fn start() -> Self {
        Self::with("", &KEEP_NOTHING)
    }

    /// The same with servers that write everything down: one that is started again has all that it had.
    pub fn start_kept() -> Self {
        Self::with("", &TestServer::KEEPS_ALL)
    }

    /// Sentinels who ask for a password, and servers who ask for none.
    pub fn guarded(password: &str) -> Self {
        // They ask each other for it too.
        Self::with(&format!("requirepass {password}\n"), &KEEP_NOTHING)
    }

    fn with(more: &str, keeping: &'static [&'static str]) -> Self {
        let master = TestServer::with(keeping);
        let port = master.port().to_string();
        let replica = || TestServer::with(&follows(keeping, &port));
        let servers = vec![master, replica(), replica()];
        let lines = format!(
            "{more}sentinel monitor main 127.0.0.1 {port} 2\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n\
             sentinel parallel-syncs main 2\n"
        );
        let password = more.split_whitespace().nth(1);
        let sentinels = (0..3).map(|_| TestServer::sentinel(&lines, password));
        let sentinels = sentinels.collect();
        let stopped = None;
        let started = Self {
            servers,
            sentinels,
            stopped,
            keeping,
        };
        // One that has not got the data yet could be made master.
        let replicas = || started.servers[0].cli(&["INFO", "replication"]);
        while replicas().matches("state=online").count() < 2 {
            std::thread::yield_now();
        }
        while !started.are_acquainted() {
            std::thread::yield_now();
        }
        started
    }

    /// The address of its sentinels, without options.
    pub fn address(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(host).collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// Ends the present master as a kill does; answers once the sentinels have made another one.
    pub fn kill_master(&mut self) {
        let before = self.master();
        let is_master = |server: &&mut TestServer| server.port() == before;
        if let Some(master) = self.servers.iter_mut().find(is_master) {
            master.kill();
        }
        while self.master() == before {
            std::thread::yield_now();
        }
    }

    /// Ends the present master as a kill does, and has a sentinel make another one without waiting until
    /// they agree that it is gone; answers once that is done.
    pub fn replace_master(&mut self) {
        let before = self.master();
        let is_master = |server: &&mut TestServer| server.port() == before;
        if let Some(master) = self.servers.iter_mut().find(is_master) {
            master.kill();
        }
        while self.master() == before {
            // Refused while one is under way, or none of the replicas will do yet.
            self.sentinels[0].cli(&["SENTINEL", "FAILOVER", "main"]);
            std::thread::yield_now();
        }
    }

    /// The replicas of the present master.
    pub fn replicas_of_master(&self) -> Vec<&TestServer> {
        let master = self.master();
        let is_replica = |server: &&TestServer| server.is_running() && server.port() != master;
        self.servers.iter().filter(is_replica).collect()
    }

    /// What every sentinel says to a command.
    pub fn ask_all(&self, arguments: &[&str]) -> Vec<String> {
        let said = self.sentinels.iter().map(|one| one.cli(arguments));
        said.collect()
    }

    /// Starts those again that were killed, as replicas of the present master.
    pub fn restart_killed(&mut self) {
        // By themselves sentinels take some eight seconds to make a replica of one.
        let master = self.master().to_string();
        let settings = follows(self.keeping, &master);
        let killed = self
            .servers
            .iter_mut()
            .filter(|server| !server.is_running());
        for server in killed {
            server.restart_with(&settings);
        }
    }

    /// Stops the present master without ending it; answers once the sentinels have made another one.
    pub fn stop_master(&mut self) {
        let before = self.master();
        let is_master = |server: &&mut TestServer| server.port() == before;
        if let Some(master) = self.servers.iter_mut().find(is_master) {
            master.stop();
        }
        while self.master() == before {
            std::thread::yield_now();
        }
        self.stopped = Some(before);
    }

    /// Lets the one that was stopped go on, with all that it had been sent; the sentinels make a
    /// replica of it.
    pub fn go_on_stopped(&mut self) {
        let port = self.stopped.take();
        let is_stopped = |server: &&mut TestServer| Some(server.port()) == port;
        if let Some(stopped) = self.servers.iter_mut().find(is_stopped) {
            stopped.go_on();
        }
    }

    /// Whether the present master has both replicas, and every server has written down what it writes down: one that is
    /// killed now starts with all it has.
    pub fn are_whole(&self) -> bool {
        let mut running = self.servers.iter().filter(|server| server.is_running());
        self.replicas() == 2 && running.all(TestServer::has_written_down)
    }

    fn replicas(&self) -> usize {
        let port = self.master();
        let master = self.servers.iter().find(|server| server.port() == port);
        let said = master.map_or(String::new(), |master| master.cli(&["INFO", "replication"]));
        said.matches("state=online").count()
    }

    fn master(&self) -> u16 {
        let asked = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"];
        let said = self.sentinels[0].cli(&asked);
        let port = said.lines().nth(1).and_then(|port| port.parse().ok());
        port.unwrap_or_else(|| panic!("a sentinel knows a master, said {said:?}"))
    }

    fn are_acquainted(&self) -> bool {
        self.sentinels.iter().all(|sentinel| {
            let said = sentinel.cli(&["SENTINEL", "MASTER", "main"]);
            let mut words = said.lines();
            let mut number = |name: &str| {
                words.find(|word| *word == name)?;
                words.next()?.parse::<u32>().ok()
            };
            number("num-slaves") == Some(2) && number("num-other-sentinels") == Some(2)
        })
    }
}

/// The settings of a replica of a server here.
fn follows<'a>(keeping: &[&'a str], port: &'a str) -> Vec<&'a str> {
    [keeping, &["--replicaof", "127.0.0.1", port]].concat()
}

fn host(server: &TestServer) -> String {
    format!("127.0.0.1:{}", server.port())
}
