//! Where the audit record of an engine is.

use std::path::Path;

use punctual::{Error, ErrorKind, Namespace};
use punctual_client::HttpEngine;
use punctual_gateway::{Audit, AuditEntry};
use serde::Deserialize;

use super::{AUDIT, Address};
use crate::failure::{Exit, Failure, Result};

#[derive(Deserialize)]
struct Answer {
    entries: Vec<AuditEntry>,
}

impl Address {
    /// The namespace of the token that a gateway there knows.
    pub(crate) async fn own_namespace(&self) -> Result<Option<Namespace>> {
        match self {
            Self::Gateway {
                authority,
                transport,
                deadline,
            } => {
                let engine = super::gateway(authority, transport, *deadline)?;
                Ok(Some(engine.own_namespace().await?))
            }
            _ => Ok(None),
        }
    }

    /// What the server of the engine has on record of a namespace; without a server, what is in its
    /// directory. The latest first.
    pub(crate) async fn record(&self, namespace: &Namespace) -> Result<Vec<AuditEntry>> {
        match self {
            Self::Gateway {
                authority,
                transport,
                deadline,
            } => {
                let engine = super::gateway(authority, transport, *deadline)?;
                Ok(asked(&engine, namespace).await?)
            }
            Self::File { dir, .. } => {
                match asked(&HttpEngine::in_directory(dir), namespace).await {
                    Err(error) if error.kind() == ErrorKind::EngineUnavailable => in_directory(dir),
                    answer => Ok(answer?),
                }
            }
            Self::Memory(_) | Self::Redis(_) => {
                let message = format!("{self} keeps no audit record");
                Err(Failure::usage(message).hint(
                    "direct changes are not recorded; read the record of a gateway with --engine http://HOST:PORT or --file",
                ))
            }
        }
    }
}

async fn asked(gateway: &HttpEngine, namespace: &Namespace) -> punctual::Result<Vec<AuditEntry>> {
    let bytes = gateway.audit(namespace).await?;
    let answer: Answer = serde_json::from_slice(&bytes).map_err(|error| {
        let message =
            "the gateway's audit record cannot be parsed; run the same version on both ends";
        Error::new(ErrorKind::Internal, message).source(error)
    })?;
    Ok(answer.entries)
}

fn in_directory(dir: &Path) -> Result<Vec<AuditEntry>> {
    if !dir.is_dir() {
        let message = format!("there is no directory {}", dir.display());
        return Err(Failure::new(Exit::NotFound, "not_found", message)
            .hint("name one with --engine file:DIR or PUNCTUAL_ENGINE"));
    }
    Ok(Audit::read(&dir.join(AUDIT))?)
}
