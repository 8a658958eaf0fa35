//! ztunnel's certificate manager and its client of Istio's CA, without its proxy: asks for every identity at once and reports how long
//! each took. Everything but this file is ztunnel's own code, on its allocator and a runtime of one thread, as in its `main`.
//!
//! `ztunnel-manager CA_ADDRESS CA_ROOT_FILE IDENTITY_PATTERN IDENTITIES [nodelay]`, where `{i}` in the pattern is a number below IDENTITIES.
use std::path::PathBuf;
use std::str::FromStr;
use std::time::{Duration, Instant};

use ztunnel::config::RootCert;
use ztunnel::identity::{AuthSource, CaClient, Identity, SecretManager};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[allow(non_upper_case_globals)]
#[unsafe(export_name = "malloc_conf")]
pub static malloc_conf: &[u8] =
    b"prof:true,prof_active:false,lg_prof_sample:19,thp:never,background_thread:true,dirty_decay_ms:5000,muzzy_decay_ms:5000\0";

const TTL_SECONDS: i64 = 24 * 60 * 60;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [address, root, pattern, identities, options @ ..] = args.as_slice() else {
        return Err(
            "give the CA's address, a file with its root, a pattern of identities, and how many"
                .into(),
        );
    };
    let identities: usize = identities.parse()?;
    if options == ["nodelay"] {
        std::thread::spawn(disable_nagle);
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let mut waits =
        runtime.block_on(fetch_all(address, PathBuf::from(root), pattern, identities))?;
    waits.sort();
    let at = |share: usize| waits[(waits.len() * share).div_ceil(100) - 1].as_secs_f64() * 1e3;
    println!(
        "{{\"p50_ms\":{:.3},\"p99_ms\":{:.3},\"peak_rss_kb\":{}}}",
        at(50),
        at(99),
        peak_resident()?
    );
    Ok(())
}

async fn fetch_all(
    address: &str,
    root: PathBuf,
    pattern: &str,
    identities: usize,
) -> Result<Vec<Duration>, Box<dyn std::error::Error>> {
    let client = CaClient::new(
        format!("https://{address}"),
        None,
        RootCert::File(root),
        AuthSource::None,
        true,
        TTL_SECONDS,
        Vec::new(),
    )
    .await?;
    let manager = SecretManager::new_with_client(client);
    let mut fetches = tokio::task::JoinSet::new();
    for index in 0..identities {
        let id = Identity::from_str(&pattern.replace("{i}", &index.to_string()))?;
        let manager = manager.clone();
        fetches.spawn(async move {
            let asked = Instant::now();
            manager
                .fetch_certificate(&id)
                .await
                .map(|_| asked.elapsed())
        });
    }
    let mut waits = Vec::with_capacity(identities);
    while let Some(fetched) = fetches.join_next().await {
        waits.push(fetched??);
    }
    Ok(waits)
}

/// ztunnel does not set TCP_NODELAY on the connection to its CA and has no option for it. The option can be set from outside
/// on any of the first descriptors that is a TCP socket, before it connects or right after.
fn disable_nagle() {
    let on: libc::c_int = 1;
    let size = size_of_val(&on) as libc::socklen_t;
    for _ in 0..500 {
        for descriptor in 3..32 {
            // SAFETY: the kernel reads `size` bytes of `on`, and refuses a descriptor that is not of a TCP socket.
            unsafe {
                libc::setsockopt(
                    descriptor,
                    libc::IPPROTO_TCP,
                    libc::TCP_NODELAY,
                    (&raw const on).cast(),
                    size,
                )
            };
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn peak_resident() -> Result<u64, Box<dyn std::error::Error>> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .ok_or("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
