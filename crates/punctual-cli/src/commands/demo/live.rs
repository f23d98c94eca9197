//! The demo in a browser: a dashboard of its own engine.

use punctual::time::millis;
use punctual_gateway::{Gateway, Scope, Serving, Token, Tokens};

use crate::args::{Listen, Session};
use crate::failure::Result;

pub(super) struct Live {
    serving: Serving,
    url: String,
}

impl Live {
    /// Serves the demo's namespace to clients with the token in [`url`](Self::url), also by the
    /// name that was said instead of the address.
    pub(super) async fn open(session: &Session, listen: &Listen) -> Result<Self> {
        let token = Token::generate();
        let known = Token::new(&token, session.namespace.clone(), &Scope::ALL)?;
        let gateway = Gateway::new(session.engine.clone(), Tokens::new(vec![known]))
            .hosts(listen.name.iter().cloned().collect());
        let serving = gateway.serve(listen.address).await?;
        let url = format!("http://{}/#token={token}", serving.address());
        Ok(Self { serving, url })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    pub(super) async fn end(self) {
        self.serving.drain(millis(500)).await;
    }
}

#[cfg(test)]
mod tests;
