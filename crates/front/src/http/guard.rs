//! Who a request is meant for, and which page sent it.
//!
//! A node on loopback trusts whoever reaches it, and a browser reaches it for any page. Two things give such pages away:
//! a name of theirs that suddenly resolves to 127.0.0.1 stands in `Host`, and a page of another site in `Origin`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Request};

use crate::errors::{Kind, Problem};

/// Which hosts a port answers for.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    bound: IpAddr,
    hosts: Vec<String>,
    any_host: bool,
}

impl Guard {
    pub(super) fn new(bound: SocketAddr, hosts: &[String], any_host: bool) -> Guard {
        let hosts = hosts.iter().map(|host| plain(host)).collect();
        Guard { bound: bound.ip().to_canonical(), hosts, any_host }
    }

    /// Refuses a request that is not meant for this node, or that a page of another site sent to change something.
    pub(super) fn check<B>(&self, request: &Request<B>) -> Result<(), Problem> {
        let authority = match request.uri().authority() {
            // A whole URL in the request line overrules `Host` (RFC 9112, section 3.2.2).
            Some(authority) => authority.as_str(),
            None => self.host(request.headers())?,
        };
        if !self.any_host {
            self.check_host(authority)?;
        }
        let changes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
        let origins = request.headers().get_all(ORIGIN);
        match origins.iter().all(|origin| origin.to_str().is_ok_and(|origin| is_same(origin, authority))) {
            false if changes => {
                Err(Problem::new(Kind::Denied, "a page of another site may not change anything here"))
            }
            _ => Ok(()),
        }
    }

    fn host<'a>(&self, headers: &'a HeaderMap) -> Result<&'a str, Problem> {
        let mut hosts = headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => host.to_str().map_err(|_| Problem::bad("the header Host is not ASCII")),
            (None, _) if self.any_host => Ok(""),
            (None, _) => Err(Problem::bad("the header Host is missing")),
            (Some(_), Some(_)) => Err(Problem::bad("the header Host is there more than once")),
        }
    }

    fn check_host(&self, authority: &str) -> Result<(), Problem> {
        let Some((host, _)) = split(authority) else {
            return Err(Problem::bad("the header Host is not HOST or HOST:PORT"));
        };
        let allowed = match address(&host) {
            Some(ip) => self.is_allowed_address(ip.to_canonical()),
            None => host == "localhost" || host.ends_with(".localhost"),
        };
        match allowed || self.hosts.contains(&host) {
            true => Ok(()),
            false => {
                let detail = "the header Host names a host that this node does not answer for";
                Err(Problem::new(Kind::Misdirected, detail).with("host", host))
            }
        }
    }

    /// A port that is bound to every address of the machine answers to each; rebinding works with names only.
    fn is_allowed_address(&self, ip: IpAddr) -> bool {
        ip.is_loopback() || ip == self.bound || self.bound.is_unspecified()
    }
}

/// Says whether an origin like `http://host:port` is the one of a request to `authority`.
fn is_same(origin: &str, authority: &str) -> bool {
    let Some((scheme, origin)) = origin.split_once("://") else { return false };
    let default = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return false,
    };
    let full = |(host, port): (String, Option<u16>)| (host, port.unwrap_or(default));
    split(origin).is_some_and(|origin| split(authority).map(full) == Some(full(origin)))
}

/// Splits `host`, `host:port`, `[::1]` or `[::1]:port`. The host comes out in lower case, without brackets.
fn split(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (host, rest) = inner.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            (host, rest)
        }
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest.strip_prefix(':') {
        Some(port) if port.bytes().all(|b| b.is_ascii_digit()) => Some(port.parse().ok()?),
        Some(_) => return None,
        None if rest.is_empty() => None,
        None => return None,
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    (!host.is_empty() && host.chars().all(fits)).then(|| (plain(host), port))
}

/// Names are compared without case and without the dot that ends a full name.
fn plain(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn address(host: &str) -> Option<IpAddr> {
    host.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(bound: &str) -> Guard {
        Guard::new(SocketAddr::new(bound.parse().unwrap(), 7480), &["Kringle.Test".into()], false)
    }

    fn status(guard: &Guard, method: &str, headers: &[(&str, &str)]) -> u16 {
        let mut request = Request::builder().method(method).uri("/v1/status");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        guard.check(&request.body(()).unwrap()).err().map_or(200, |problem| problem.status())
    }

    #[test]
    fn a_port_on_loopback_answers_to_the_names_of_loopback_only() {
        let guard = guard("127.0.0.1");
        for host in [
            "localhost",
            "LOCALHOST:7480",
            "localhost.",
            "127.0.0.1:7480",
            "127.9.9.9",
            "[::1]:7480",
            "[::1]",
            "a.localhost",
            "kringle.test:80",
            "[::ffff:127.0.0.1]",
        ] {
            assert_eq!(status(&guard, "GET", &[("host", host)]), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:7480",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "evillocalhost",
            "10.0.0.1",
            "[::2]:7480",
            "0.0.0.0",
            "2130706433",
        ] {
            assert_eq!(status(&guard, "GET", &[("host", host)]), 421, "{host}");
        }
        for host in [
            "",
            ":7480",
            "localhost:x",
            "localhost:+1",
            "localhost:99999",
            "[::1",
            "[::1]x",
            "a b",
            "u@localhost",
            "::1",
            "[localhost]",
        ] {
            assert_eq!(status(&guard, "GET", &[("host", host)]), 400, "{host}");
        }
    }

    #[test]
    fn a_host_must_be_there_once() {
        let guard = guard("127.0.0.1");
        assert_eq!(status(&guard, "GET", &[]), 400);
        assert_eq!(status(&guard, "GET", &[("host", "localhost"), ("host", "localhost")]), 400);
    }

    #[test]
    fn a_whole_url_overrules_the_host() {
        let request =
            Request::builder().uri("http://evil.example/").header("host", "localhost").body(()).unwrap();
        assert_eq!(guard("127.0.0.1").check(&request).unwrap_err().status(), 421);
    }

    #[test]
    fn a_port_on_every_address_answers_to_addresses_but_not_to_names() {
        let guard = guard("0.0.0.0");
        assert_eq!(status(&guard, "GET", &[("host", "10.1.2.3:7480")]), 200);
        assert_eq!(status(&guard, "GET", &[("host", "evil.example")]), 421);
        let any = Guard { any_host: true, ..guard };
        assert_eq!(status(&any, "GET", &[("host", "ring.example")]), 200);
    }

    #[test]
    fn only_pages_of_this_very_port_may_change_something() {
        let guard = guard("127.0.0.1");
        let with = |method, origin| status(&guard, method, &[("host", "localhost:7480"), ("origin", origin)]);
        assert_eq!(with("POST", "http://localhost:7480"), 200);
        for origin in [
            "http://evil.example",
            "http://localhost:8080",
            "http://localhost",
            "null",
            "",
            "http://127.0.0.1:7480",
        ] {
            assert_eq!(with("POST", origin), 403, "{origin}");
            assert_eq!(with("DELETE", origin), 403, "{origin}");
            assert_eq!(with("GET", origin), 200, "{origin}");
        }
        assert_eq!(status(&guard, "POST", &[("host", "localhost"), ("origin", "http://localhost:80")]), 200);
    }

    #[test]
    fn a_port_for_any_host_still_refuses_changes_of_other_sites() {
        let any = Guard { any_host: true, ..guard("0.0.0.0") };
        assert_eq!(status(&any, "POST", &[("host", "a.example"), ("origin", "http://b.example")]), 403);
    }
}
