//! One connection to one server, and how it is made.

use std::fmt;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use punctual::sync::Lock;
use punctual::time::{Stopwatch, millis, seconds, within};
use punctual::{Error, ErrorKind, Result};
use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Client, ClientTlsConfig, ConnectionAddr, IntoConnectionInfo,
    RedisConnectionInfo, TlsCertificates,
};

use crate::options::Options;
use crate::transport::address::{Host, Secret};
use crate::transport::error_mapping::unreachable;

/// By when a call must have been answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    watch: Stopwatch,
    span: Duration,
}

impl Deadline {
    pub(crate) fn within(span: Duration) -> Self {
        let watch = Stopwatch::start();
        Self { watch, span }
    }

    pub(crate) fn left(&self) -> Duration {
        self.span.saturating_sub(self.watch.elapsed())
    }
}

/// Connects to servers, all with the same credentials.
#[derive(Clone)]
pub(crate) struct Dialer {
    settings: RedisConnectionInfo,
    /// For sentinels, which have no databases, and users of their own.
    sentinels: RedisConnectionInfo,
    tls: Option<TlsCertificates>,
    refuses_plaintext: bool,
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Dialer")
    }
}

/// How long one try to connect may take.
const CONNECT: Duration = seconds(2);

impl Dialer {
    pub(crate) fn new(options: &Options) -> Result<Self> {
        let settings = RedisConnectionInfo::default()
            .set_db(options.database)
            .set_skip_set_lib_name();
        let settings = with_credentials(settings, &options.user, &options.password);
        let sentinels = with_credentials(
            RedisConnectionInfo::default(),
            &options.sentinel_user,
            &options.sentinel_password,
        );
        let tls = match options.tls.on {
            true => Some(certificates(options)?),
            false => None,
        };
        Ok(Self {
            settings,
            sentinels,
            tls,
            refuses_plaintext: options.refuses_plaintext(),
        })
    }

    /// The same for sentinels.
    pub(crate) fn to_sentinels(&self) -> Self {
        let mut dialer = self.clone();
        dialer.settings = self.sentinels.clone();
        dialer
    }

    /// A connection without a limit of its own to how long an answer takes.
    pub(crate) async fn dial(&self, host: &Host) -> Result<MultiplexedConnection> {
        if self.refuses_plaintext {
            host.check_plaintext()?;
        }
        let client = self.client(host)?;
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let dialled = client.get_multiplexed_async_connection_with_config(&config);
        match within(CONNECT, dialled).await {
            Some(Ok(connection)) => Ok(connection),
            Some(Err(error)) => Err(unreachable(host, &error)),
            None => Err(Error::new(
                ErrorKind::EngineUnavailable,
                format!("redis at {host} takes no connection; is it running and is the way free?"),
            )),
        }
    }

    fn client(&self, host: &Host) -> Result<Client> {
        let (name, port) = (host.name.clone(), host.port);
        let addr = match &self.tls {
            None => ConnectionAddr::Tcp(name, port),
            Some(_) => ConnectionAddr::TcpTls {
                host: name,
                port,
                insecure: false,
                tls_params: None,
            },
        };
        let info = addr.into_connection_info();
        let info = info.map(|info| info.set_redis_settings(self.settings.clone()));
        let client = info.and_then(|info| match &self.tls {
            None => Client::open(info),
            Some(certificates) => Client::build_with_tls(info, certificates.clone()),
        });
        client.map_err(|error| unreachable(host, &error))
    }
}

fn with_credentials(
    mut settings: RedisConnectionInfo,
    user: &Option<String>,
    password: &Option<Secret>,
) -> RedisConnectionInfo {
    if let Some(user) = user {
        settings = settings.set_username(user);
    }
    if let Some(password) = password {
        settings = settings.set_password(&password.0);
    }
    settings
}

fn certificates(options: &Options) -> Result<TlsCertificates> {
    let read = |path: &std::path::PathBuf| {
        std::fs::read(path).map_err(|error| {
            let message = format!("certificate file {} cannot be read", path.display());
            Error::new(ErrorKind::InvalidInput, message).source(error)
        })
    };
    let tls = &options.tls;
    let client_tls = match (&tls.certificate, &tls.key) {
        (Some(certificate), Some(key)) => Some(ClientTlsConfig {
            client_cert: read(certificate)?,
            client_key: read(key)?,
        }),
        (None, None) => None,
        _ => {
            let message = "a client certificate needs its key; give cert and key together";
            return Err(Error::new(ErrorKind::InvalidInput, message));
        }
    };
    let root_cert = tls.authority.as_ref().map(read).transpose()?;
    Ok(TlsCertificates {
        client_tls,
        root_cert,
    })
}

/// One connection to one server, made anew when it broke.
#[derive(Debug)]
pub(crate) struct Link {
    host: Host,
    dialer: Dialer,
    state: Mutex<State>,
    dialling: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    live: Option<Live>,
    made: u64,
    failed: Option<(Stopwatch, String)>,
}

/// A connection, and which of the link's it is.
#[derive(Debug, Clone)]
pub(crate) struct Live {
    pub(crate) connection: MultiplexedConnection,
    pub(crate) generation: u64,
}

/// Callers that come that soon after a failed try share its answer.
pub(crate) const SHARED_FAILURE: Duration = millis(20);

impl Link {
    pub(crate) fn new(host: Host, dialer: Dialer) -> Self {
        Self {
            host,
            dialer,
            state: Mutex::default(),
            dialling: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// The connection; one try to make it if there is none.
    pub(crate) async fn live(&self) -> Result<Live> {
        if let Some(known) = self.known() {
            return known;
        }
        let _dialling = self.dialling.lock().await;
        if let Some(known) = self.known() {
            return known;
        }
        let dialled = self.dialer.dial(&self.host).await;
        let mut state = self.state();
        match dialled {
            Ok(connection) => {
                state.made += 1;
                let live = Live {
                    connection,
                    generation: state.made,
                };
                state.live = Some(live.clone());
                state.failed = None;
                Ok(live)
            }
            Err(error) => {
                if error.is_retryable() {
                    state.failed = Some((Stopwatch::start(), error.message().to_owned()));
                }
                Err(error)
            }
        }
    }

    /// Gives a connection up, unless another one has taken its place.
    pub(crate) fn broken(&self, generation: u64) {
        let mut state = self.state();
        if state
            .live
            .as_ref()
            .is_some_and(|live| live.generation == generation)
        {
            state.live = None;
        }
    }

    /// Gives up the connection that there is.
    pub(crate) fn give_up(&self) {
        self.state().live = None;
    }

    fn known(&self) -> Option<Result<Live>> {
        let state = self.state();
        if let Some(live) = &state.live {
            return Some(Ok(live.clone()));
        }
        let (since, said) = state.failed.as_ref()?;
        let fresh = since.elapsed() < SHARED_FAILURE;
        fresh.then(|| Err(Error::new(ErrorKind::EngineUnavailable, said.clone())))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.locked()
    }
}

#[cfg(test)]
mod tests;
