//! The caller of a request: its namespace, its token and its scopes.

use std::sync::Arc;

use axum::http::StatusCode;
use punctual::Namespace;

use super::{Problem, Result, Scope, Token};

/// The caller of a request, and its namespace.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) namespace: Namespace,
    /// A process of the same user has none, nor has a caller of an open gateway.
    token: Option<Token>,
    is_local: bool,
}

/// Whom the bytes of a body are counted for: a token of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct BodyOwner {
    pub(crate) namespace: Arc<str>,
    pub(crate) token: Arc<str>,
}

impl Caller {
    /// The owner of a token.
    pub(crate) fn with_token(token: Token) -> Self {
        Self {
            namespace: token.namespace().clone(),
            token: Some(token),
            is_local: false,
        }
    }

    /// A caller that needs no token, over the network.
    pub(crate) fn open(namespace: Namespace) -> Self {
        Self {
            namespace,
            token: None,
            is_local: false,
        }
    }

    /// Its token, if it has one.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// A process of the same user.
    pub(crate) fn local(namespace: Namespace) -> Self {
        Self {
            namespace,
            token: None,
            is_local: true,
        }
    }

    /// Whether no token bounds it to a namespace: it could as well name any.
    pub(crate) fn sees_all(&self) -> bool {
        self.token.is_none()
    }

    /// Whether it may know what is of no one namespace.
    pub(crate) fn sees_engine(&self) -> bool {
        self.allows(Scope::Operator)
    }

    /// What the audit record calls it.
    pub(crate) fn who(&self) -> &str {
        match &self.token {
            Some(token) => token.name(),
            None if self.is_local => "local",
            None => "no token",
        }
    }

    /// Whom its bodies are counted for.
    pub(crate) fn owner(&self) -> BodyOwner {
        BodyOwner {
            namespace: self.namespace.as_str().into(),
            token: self.who().into(),
        }
    }

    pub(crate) fn allows(&self, scope: Scope) -> bool {
        self.token.as_ref().is_none_or(|token| token.allows(scope))
    }

    pub(crate) fn need(&self, scope: Scope) -> Result<()> {
        if self.allows(scope) {
            return Ok(());
        }
        let message = format!("the token lacks the scope {}", scope.name());
        Err(Problem::new(StatusCode::FORBIDDEN, "forbidden", message)
            .hint("use a token with that scope; the operator of the gateway issues them"))
    }

    pub(crate) fn scopes(&self) -> Vec<&'static str> {
        match &self.token {
            Some(token) => token.scopes(),
            None => Scope::ALL.map(Scope::name).into(),
        }
    }
}
