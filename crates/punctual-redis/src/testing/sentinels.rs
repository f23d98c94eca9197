//! Starts sentinels for a test.

use super::TestServer;
use super::server::await_fact;

/// A master with two replicas, and three sentinels who watch it.
#[derive(Debug)]
pub struct TestSentinels {
    servers: Vec<TestServer>,
    sentinels: Vec<TestServer>,
    /// The port of the master that was stopped.
    stopped: Option<u16>,
    /// What the servers keep on disk.
    keeping: Vec<String>,
}

/// What a server has got from its master as a whole it keeps all the same, and starts with.
const KEEP_NOTHING: [&str; 2] = ["--save", ""];

/// The setting of sentinels that says after how many milliseconds a silent master is lost.
const DOWN_AFTER: &str = "down-after-milliseconds";
const SOON: &str = "500";
const LATE: &str = "600000";

impl TestSentinels {
    /// Servers that write nothing down. Answers once the replicas have the data and every sentinel
    /// knows all of them.
    pub fn start() -> Self {
        Self::with("", &KEEP_NOTHING)
    }

    /// The same with servers that write everything down: one that is started again has all that it
    /// had.
    pub fn start_kept() -> Self {
        Self::with("", &TestServer::KEEPS_ALL)
    }

    /// Sentinels who ask for a password, and servers who ask for none.
    pub fn guarded(password: &str) -> Self {
        // They ask each other for it too.
        Self::with(&format!("requirepass {password}\n"), &KEEP_NOTHING)
    }

    /// Servers and sentinels with settings that name their certificate, which take encrypted
    /// connections only.
    pub fn encrypted(certificate: &[&str]) -> Self {
        let settings = [&KEEP_NOTHING, certificate, &["--tls-replication", "yes"]].concat();
        let file = certificate.chunks(2).map(|setting| setting.join(" "));
        let file: Vec<_> = file.collect();
        let file = file.join("\n").replace("--", "");
        Self::with(&format!("{file}\ntls-replication yes\n"), &settings)
    }

    fn with(more: &str, keeping: &[&str]) -> Self {
        let master = TestServer::with(keeping);
        let port = master.port().to_string();
        let replica = || TestServer::with(&follows(keeping, &port));
        let servers = vec![master, replica(), replica()];
        let lines = format!(
            "{more}sentinel monitor main 127.0.0.1 {port} 2\n\
             sentinel {DOWN_AFTER} main {SOON}\n\
             sentinel failover-timeout main 3000\n\
             sentinel parallel-syncs main 2\n"
        );
        let password = more.strip_prefix("requirepass ").map(str::trim_end);
        let sentinels = (0..3).map(|_| TestServer::sentinel(&lines, password));
        let sentinels = sentinels.collect();
        let stopped = None;
        let started = Self {
            servers,
            sentinels,
            stopped,
            keeping: keeping.iter().map(ToString::to_string).collect(),
        };
        // One that has not got the data yet could be made master.
        let replicas = || started.servers[0].cli(&["INFO", "replication"]);
        await_fact(|| replicas().matches("state=online").count() == 2);
        await_fact(|| started.are_acquainted());
        started
    }

    /// The address of its sentinels, without options.
    pub fn address(&self) -> String {
        let hosts: Vec<_> = self.sentinels.iter().map(host).collect();
        format!("redis+sentinel://{}/main", hosts.join(","))
    }

    /// Ends the present master as a kill does; answers once the sentinels have made another one.
    pub fn kill_master(&mut self) {
        let before = self.end_master();
        await_fact(|| self.master() != before);
    }

    /// Ends the present master as a kill does, and has a sentinel make another one without waiting
    /// until they agree that it is gone; answers once that is done.
    pub fn replace_master(&mut self) {
        let before = self.end_master();
        self.elect(before);
    }

    /// Lets nothing more of what the present master takes come to its replicas. However long that
    /// is so, no sentinel acts by itself, and none finds a replica too old.
    pub fn cut_off_replicas(&self) {
        self.be_patient(LATE);
        for replica in self.replicas_of_master() {
            replica.cut_off_from_master();
        }
    }

    /// Ends the present master, whose replicas are cut off, as a kill does, and has one of them
    /// made master; answers once that is done. What came to the old one since they were cut off is
    /// lost.
    pub fn replace_outrun_master(&mut self) {
        let before = self.end_master();
        for server in self.servers.iter().filter(|server| server.is_running()) {
            server.follow_master_again();
        }
        self.elect(before);
        // A client that does not know the new master, or not reached it yet, would take it for lost
        // and have one more elected.
        let follows = |one| master(one) != before && of_master(one, "flags") == "master";
        await_fact(|| self.sentinels.iter().all(follows));
        self.be_patient(SOON);
    }

    fn end_master(&mut self) -> u16 {
        let before = self.master();
        let is_master = |server: &&mut TestServer| server.port() == before;
        if let Some(master) = self.servers.iter_mut().find(is_master) {
            master.kill();
        }
        before
    }

    fn elect(&self, before: u16) {
        await_fact(|| {
            // Refused while one is under way, or none of the replicas will do yet.
            self.sentinels[0].cli(&["SENTINEL", "FAILOVER", "main"]);
            self.master() != before
        });
    }

    /// How many milliseconds a master may be silent until a sentinel takes it for lost.
    fn be_patient(&self, millis: &str) {
        let said = self.ask_all(&["SENTINEL", "SET", "main", DOWN_AFTER, millis]);
        assert!(said.iter().all(|said| said == "OK"), "{said:?}");
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
        let keeping: Vec<&str> = self.keeping.iter().map(String::as_str).collect();
        let settings = follows(&keeping, &master);
        let killed = self
            .servers
            .iter_mut()
            .filter(|server| !server.is_running());
        for server in killed {
            server.restart_with(&settings);
        }
    }

    /// Stops the present master without ending it; answers once the sentinels have made another
    /// one.
    pub fn stop_master(&mut self) {
        let before = self.master();
        let is_master = |server: &&mut TestServer| server.port() == before;
        if let Some(master) = self.servers.iter_mut().find(is_master) {
            master.stop();
        }
        await_fact(|| self.master() != before);
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

    /// Whether the present master has both replicas, and every server has written down what it
    /// writes down: one that is killed now starts with all it has.
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
        master(&self.sentinels[0])
    }

    fn are_acquainted(&self) -> bool {
        let knows = |sentinel: &TestServer| {
            of_master(sentinel, "num-slaves") == "2"
                && of_master(sentinel, "num-other-sentinels") == "2"
        };
        self.sentinels.iter().all(knows)
    }
}

/// The port of the master, as a sentinel knows it.
fn master(sentinel: &TestServer) -> u16 {
    let said = sentinel.cli(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", "main"]);
    let port = said.lines().nth(1).and_then(|port| port.parse().ok());
    port.unwrap_or_else(|| panic!("a sentinel knows a master, said {said:?}"))
}

/// What a sentinel says of its master under a name.
fn of_master(sentinel: &TestServer, name: &str) -> String {
    let said = sentinel.cli(&["SENTINEL", "MASTER", "main"]);
    let mut words = said.lines().skip_while(|word| *word != name);
    words.nth(1).unwrap_or_default().to_owned()
}

/// The settings of a replica of a server here.
fn follows<'a>(keeping: &[&'a str], port: &'a str) -> Vec<&'a str> {
    [keeping, &["--replicaof", "127.0.0.1", port]].concat()
}

fn host(server: &TestServer) -> String {
    format!("127.0.0.1:{}", server.port())
}
