//! Starts a cluster for a test.

use super::TestServer;
use super::server::await_fact;

/// Three masters of one cluster, without replicas unless it is asked for them.
#[derive(Debug)]
pub struct TestCluster {
    /// The masters of the beginning, then their replicas in the same order.
    nodes: Vec<TestServer>,
}

const SETTINGS: [&str; 6] = [
    "--cluster-enabled",
    "yes",
    "--cluster-node-timeout",
    "2000",
    "--cluster-config-file",
    "nodes.conf",
];

/// The 16,384 slots, in three parts.
const PARTS: [(u16, u16); 3] = [(0, 5_460), (5_461, 10_922), (10_923, 16_383)];

impl TestCluster {
    /// Masters that keep nothing on disk. Answers once every node knows that all slots are covered.
    pub fn start() -> Self {
        Self::with(&["--save", "", "--appendonly", "no"])
    }

    /// The same with nodes that keep everything over a kill.
    pub fn start_kept() -> Self {
        Self::with(&TestServer::KEEPS_ALL)
    }

    /// The same with settings for each of its nodes, as [`TestServer::with`] takes them; they talk
    /// to each other encrypted where those name a certificate.
    pub fn with(settings: &[&str]) -> Self {
        let is_encrypted = settings.contains(&"--tls-cert-file");
        let encrypted = ["--tls-cluster", if is_encrypted { "yes" } else { "no" }];
        let settings = [settings, &SETTINGS, &encrypted].concat();
        let nodes: Vec<_> = PARTS.map(|_| TestServer::with(&settings)).into();
        for (node, (first, last)) in nodes.iter().zip(PARTS) {
            let (first, last) = (first.to_string(), last.to_string());
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
        }
        // Without epochs of their own the first to speak would win slots that two claim.
        for (node, epoch) in nodes.iter().zip(["1", "2", "3"]) {
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", epoch]);
        }
        for node in &nodes[1..] {
            let port = node.port().to_string();
            nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port]);
        }
        let cluster = Self { nodes };
        await_fact(|| cluster.is_whole());
        cluster
    }

    /// Masters that keep nothing on disk, with a replica each. Answers once every replica has the
    /// data, and every node knows whose it is.
    pub fn start_replicated() -> Self {
        let mut cluster = Self::start();
        let settings = [&["--save", "", "--appendonly", "no"][..], &SETTINGS].concat();
        for _ in PARTS {
            let replica = TestServer::with(&settings);
            let port = replica.port().to_string();
            cluster.nodes[0].cli(&["CLUSTER", "MEET", "127.0.0.1", &port]);
            cluster.nodes.push(replica);
        }
        let (masters, replicas) = cluster.nodes.split_at(PARTS.len());
        for (master, replica) in masters.iter().zip(replicas) {
            // Until it knows its master it refuses.
            await_fact(|| replica.cli(&["CLUSTER", "REPLICATE", &id(master)]) == "OK");
            await_fact(|| {
                master
                    .cli(&["INFO", "replication"])
                    .contains("state=online")
            });
        }
        let knows_all = |node: &TestServer| {
            let nodes = node.cli(&["CLUSTER", "NODES"]);
            nodes.matches("slave ").count() == PARTS.len()
        };
        await_fact(|| cluster.is_whole() && cluster.nodes.iter().all(knows_all));
        cluster
    }

    /// Has the replica of who answers for the slot of a key take its place, as an operator does;
    /// answers once it has.
    pub fn fail_over(&self, key: &str) {
        let replica = self.replica_for(key);
        let has_all = || {
            let said = replica.cli(&["INFO", "replication"]);
            said.contains("master_link_status:up")
        };
        await_fact(has_all);
        // Who takes it for a master, as it was before the last time, does not vote for it.
        let (replica_id, master_id) = (id(replica), id(&self.nodes[self.owner_of(key)]));
        let follows = format!("slave {master_id}");
        let knows = |node: &TestServer| {
            let nodes = node.cli(&["CLUSTER", "NODES"]);
            let mut lines = nodes.lines();
            lines.any(|line| line.starts_with(&replica_id) && line.contains(&follows))
        };
        await_fact(|| self.nodes.iter().all(knows));
        await_fact(|| replica.cli(&["CLUSTER", "FAILOVER"]) == "OK");
        await_fact(|| is_master(replica));
    }

    /// Ends who answers for the slot of a key as a kill does; answers once its replica has taken
    /// its place.
    pub fn kill_owner(&mut self, key: &str) {
        let replica = self.replica_for(key).port();
        let owner = self.owner_of(key);
        self.nodes[owner].kill();
        let took_over = |node: &TestServer| node.port() == replica && is_master(node);
        await_fact(|| self.nodes.iter().any(took_over));
    }

    fn replica_for(&self, key: &str) -> &TestServer {
        let master = id(&self.nodes[self.owner_of(key)]);
        let follows = |node: &&TestServer| {
            let nodes = node.cli(&["CLUSTER", "NODES"]);
            let own = nodes.lines().find(|line| line.contains("myself"));
            own.is_some_and(|own| own.contains(&format!("slave {master}")))
        };
        let found = self.nodes.iter().find(follows);
        found.expect("each master has a replica")
    }

    /// Its first node.
    pub fn first(&self) -> &TestServer {
        &self.nodes[0]
    }

    /// Its nodes.
    pub fn nodes(&mut self) -> &mut [TestServer] {
        &mut self.nodes
    }

    /// The address of its first node, without options.
    pub fn address(&self) -> String {
        format!("redis+cluster://127.0.0.1:{}", self.nodes[0].port())
    }

    /// Moves the slot of a key to the node of that number, all its keys at once, as an operator
    /// does.
    pub fn move_slot(&self, key: &str, to: usize) {
        if let Some(begun) = self.begin_move(key, to) {
            while begun.carry(3) > 0 {}
            begun.end();
        }
    }

    /// Begins to move the slot of a key to the node of that number, if it is not there.
    pub fn begin_move(&self, key: &str, to: usize) -> Option<SlotMove<'_>> {
        let slot = self.nodes[0].cli(&["CLUSTER", "KEYSLOT", key]);
        let (from, to) = (self.owner(&slot), &self.nodes[to]);
        if from.port() == to.port() {
            return None;
        }
        to.cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]);
        from.cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]);
        Some(SlotMove { slot, from, to })
    }

    /// The number of the node that answers for the slot of a key.
    pub fn owner_of(&self, key: &str) -> usize {
        let slot = self.nodes[0].cli(&["CLUSTER", "KEYSLOT", key]);
        let port = self.owner(&slot).port();
        let found = self.nodes.iter().position(|node| node.port() == port);
        found.expect("it is one of them")
    }

    fn owner(&self, slot: &str) -> &TestServer {
        let slot: u16 = slot.parse().expect("a number");
        let holds = |node: &&TestServer| {
            let nodes = node.cli(&["CLUSTER", "NODES"]);
            let own = nodes.lines().find(|line| line.contains("myself"));
            let ranges = own.unwrap_or_default().split(' ').skip(8);
            ranges.filter(|range| !range.starts_with('[')).any(|range| {
                let (first, last) = range.split_once('-').unwrap_or((range, range));
                let bounds = first.parse::<u16>().ok().zip(last.parse::<u16>().ok());
                bounds.is_some_and(|(first, last)| (first..=last).contains(&slot))
            })
        };
        self.nodes
            .iter()
            .find(holds)
            .expect("every slot has an owner")
    }

    /// Removes every key of every node.
    pub fn clear(&self) {
        for node in &self.nodes {
            node.clear();
        }
    }

    /// Whether all nodes know each other, and say that the cluster is up.
    pub fn is_whole(&self) -> bool {
        let all = format!("cluster_known_nodes:{}", self.nodes.len());
        let whole = |node: &TestServer| {
            let info = node.cli(&["CLUSTER", "INFO"]);
            info.contains("cluster_state:ok") && info.contains(&all)
        };
        self.nodes.iter().all(whole)
    }
}

/// A slot on its way from one node to another.
#[derive(Debug)]
pub struct SlotMove<'a> {
    slot: String,
    from: &'a TestServer,
    to: &'a TestServer,
}

impl SlotMove<'_> {
    /// Where it goes.
    pub fn to(&self) -> &TestServer {
        self.to
    }

    /// Keys that have yet to be carried.
    pub fn left(&self) -> usize {
        let count = self.from.cli(&["CLUSTER", "COUNTKEYSINSLOT", &self.slot]);
        count.parse().expect("a number")
    }

    /// Carries at most so many keys; answers how many it were, or were to be if a node is not there
    /// yet.
    pub fn carry(&self, most: usize) -> usize {
        let most = most.to_string();
        let keys = self
            .from
            .cli(&["--raw", "CLUSTER", "GETKEYSINSLOT", &self.slot, &most]);
        if keys.is_empty() {
            return 0;
        }
        let port = self.to.port().to_string();
        let migrate = ["MIGRATE", "127.0.0.1", &port, "", "0", "60000", "KEYS"];
        let arguments: Vec<&str> = migrate.into_iter().chain(keys.lines()).collect();
        let said = self.from.cli(&arguments);
        // A node that was killed is not known to be back yet, or is busy: they are still there, and
        // carried again.
        let passes = [
            "CLUSTERDOWN",
            "IOERR",
            "TRYAGAIN",
            "LOADING",
            "Can't",
            "connect",
        ];
        let is_to_come = passes.iter().any(|part| said.contains(part));
        assert!(
            is_to_come || ["OK", "NOKEY"].contains(&said.as_str()),
            "{said}"
        );
        keys.lines().count()
    }

    /// Notifies both nodes that it is over.
    pub fn end(self) {
        let target = id(self.to);
        for node in [self.to, self.from] {
            node.cli(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &target]);
        }
    }
}

fn is_master(node: &TestServer) -> bool {
    node.cli(&["ROLE"]).starts_with("master")
}

/// The name of a node among the others.
fn id(node: &TestServer) -> String {
    node.cli(&["CLUSTER", "MYID"])
}
