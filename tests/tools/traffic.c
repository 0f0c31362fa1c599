// SPDX-License-Identifier: GPL-2.0-only
/*
 * traffic: sends and receives what the tests between network namespaces need: UDP from many source
 * addresses, TCP connections, and raw frames with VLAN tags.
 *
 * A datagram carries its source, a sequence number and the time it was sent; a receiver writes them
 * down, one line each. "Nothing came" cannot be polled for, so a sender may end with a barrier: a
 * frame that is not IP and hence passes every filter. What has not come when the receiver sees it,
 * never will, since frames of one device do not overtake each other.
 *
 * The test scripts call it (see lib.sh). Exit status: 0 done, 1 not reached in time, 2 an error.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EXIT_NOT_REACHED 1
#define EXIT_ERROR 2

#define NS_PER_S 1000000000ULL
#define NS_PER_MS 1000000ULL
#define US_PER_S 1000000ULL

/* IEEE 802 keeps this ethertype for local experiments. */
#define BARRIER_ETHERTYPE 0x88b5
#define ETH_FRAME_MIN 60

#define SEND_BATCH 32u /* far below the 256 frames that a veth ring holds */
#define RECV_BATCH 256u
#define RECV_BUFFER (256 << 20)
#define TAGS_MAX 8u
#define FRAME_MAX 2048
#define TEXT_MAX 64
#define POLL_MS 50

#define PAYLOAD_MAGIC 0x6472616f62747862ULL

struct payload {
	uint64_t magic;
	uint64_t seq;
	uint64_t sent_us; /* since 1970, as bash has it in EPOCHREALTIME */
	uint8_t source[16];
};

struct address {
	int family;
	union {
		struct in_addr v4;
		struct in6_addr v6;
		uint8_t bytes[16];
	} ip;
	uint16_t port; /* host order */
};

struct options {
	const char *to, *from, *from_file, *out, *dev, *barrier, *mac, *vlan, *tpid;
	uint64_t count, rate, timeout_ms, bytes, port, sport;
	bool loop;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

__attribute__((format(printf, 1, 2), noreturn)) static void die(const char *format, ...)
{
	va_list ap;

	fputs("traffic: ", stderr);
	va_start(ap, format);
	vfprintf(stderr, format, ap);
	va_end(ap);
	fputc('\n', stderr);
	exit(EXIT_ERROR);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static uint64_t wall_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * US_PER_S + t.tv_nsec / (NS_PER_S / US_PER_S);
}

static uint64_t parse_number(const char *what, const char *text, uint64_t max)
{
	unsigned long long v;
	char *end;

	errno = 0;
	v = strtoull(text, &end, 10);
	if (errno || end == text || *end || v > max)
		die("--%s: \"%s\" is not a number of at most %llu", what, text,
		    (unsigned long long)max);
	return v;
}

static bool parse_address(const char *text, struct address *a)
{
	memset(a, 0, sizeof(*a));
	a->family = strchr(text, ':') ? AF_INET6 : AF_INET;
	return inet_pton(a->family, text, &a->ip) == 1;
}

/* "192.0.2.1:9000" or "[2001:db8::1]:9000". */
static void parse_endpoint(const char *what, const char *text, struct address *a)
{
	const char *colon, *start = text;
	char host[TEXT_MAX];
	size_t len;

	if (!text)
		die("--%s ADDR:PORT is missing", what);
	colon = strrchr(text, ':');
	len = colon ? (size_t)(colon - text) : 0;
	if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
		start++;
		len -= 2;
	}
	if (!len || len >= sizeof(host))
		die("--%s: \"%s\" is not ADDR:PORT or [ADDR]:PORT", what, text);
	memcpy(host, start, len);
	host[len] = 0;
	if (!parse_address(host, a))
		die("--%s: \"%s\" is not an IP address", what, host);
	a->port = parse_number(what, colon + 1, UINT16_MAX);
}

static const char *address_text(const struct address *a, char buf[TEXT_MAX])
{
	return inet_ntop(a->family, &a->ip, buf, TEXT_MAX);
}

static socklen_t address_sockaddr(const struct address *a, struct sockaddr_storage *ss)
{
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ss;
	struct sockaddr_in *v4 = (struct sockaddr_in *)ss;

	memset(ss, 0, sizeof(*ss));
	ss->ss_family = a->family;
	if (a->family == AF_INET) {
		v4->sin_addr = a->ip.v4;
		v4->sin_port = htons(a->port);
		return sizeof(*v4);
	}
	v6->sin6_addr = a->ip.v6;
	v6->sin6_port = htons(a->port);
	return sizeof(*v6);
}

/* What a dual-stack socket says, with IPv4-mapped addresses as the IPv4 that they are. */
static void address_of_sockaddr(const struct sockaddr_in6 *sin6, struct address *a)
{
	memset(a, 0, sizeof(*a));
	a->port = ntohs(sin6->sin6_port);
	if (IN6_IS_ADDR_V4MAPPED(&sin6->sin6_addr)) {
		a->family = AF_INET;
		memcpy(&a->ip.v4, &sin6->sin6_addr.s6_addr[12], sizeof(a->ip.v4));
	} else {
		a->family = AF_INET6;
		a->ip.v6 = sin6->sin6_addr;
	}
}

/* ---- sockets ---- */

static void set_int(int fd, int level, int name, int value, const char *what)
{
	if (setsockopt(fd, level, name, &value, sizeof(value)))
		die("cannot set %s: %s", what, strerror(errno));
}

/* Let the socket speak from addresses that no device has. */
static void set_transparent(int fd, int family)
{
	if (family == AF_INET)
		set_int(fd, IPPROTO_IP, IP_TRANSPARENT, 1, "IP_TRANSPARENT");
	else
		set_int(fd, IPPROTO_IPV6, IPV6_TRANSPARENT, 1, "IPV6_TRANSPARENT");
}

static int open_socket(int family, int type)
{
	int fd = socket(family, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("cannot open a socket: %s", strerror(errno));
	return fd;
}

static void bind_address(int fd, const struct address *a)
{
	struct sockaddr_storage ss;
	socklen_t len = address_sockaddr(a, &ss);
	char text[TEXT_MAX];

	if (bind(fd, (struct sockaddr *)&ss, len))
		die("cannot bind %s port %u: %s", address_text(a, text), a->port, strerror(errno));
}

/* A socket for both families on a port. */
static int open_server(int type, uint16_t port)
{
	struct address any = { .family = AF_INET6, .port = port };
	int fd;

	if (!port)
		die("--port PORT is missing");
	fd = open_socket(AF_INET6, type);
	set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
	bind_address(fd, &any);
	return fd;
}

static unsigned int device_index(const char *what, const char *name)
{
	unsigned int index;

	if (!name)
		die("--%s DEVICE is missing", what);
	index = if_nametoindex(name);
	if (!index)
		die("--%s: there is no device \"%s\"", what, name);
	return index;
}

static int open_packet(int type, uint16_t ethertype, unsigned int ifindex)
{
	struct sockaddr_ll sll = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ethertype),
		.sll_ifindex = ifindex,
	};
	int fd = socket(AF_PACKET, type | SOCK_CLOEXEC, 0);

	if (fd < 0)
		die("cannot open a packet socket: %s", strerror(errno));
	if (bind(fd, (struct sockaddr *)&sll, sizeof(sll)))
		die("cannot bind a packet socket: %s", strerror(errno));
	return fd;
}

/* The file that a receiver writes. It appears when the receiver is ready: a script waits for it. */
static FILE *open_out(const char *path)
{
	FILE *out;

	if (!path)
		die("--out FILE is missing");
	out = fopen(path, "we");
	if (!out)
		die("cannot write \"%s\": %s", path, strerror(errno));
	return out;
}

static void close_out(FILE *out, const char *path)
{
	if (ferror(out) || fclose(out))
		die("cannot write \"%s\"", path);
}

/* One process, one CPU: so that a queue per CPU cannot let the barrier overtake the rest. */
static void stay_on_one_cpu(void)
{
	cpu_set_t set;
	int cpu = sched_getcpu();

	if (cpu < 0)
		return;
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}

static void send_barrier(const char *device)
{
	uint8_t frame[ETH_FRAME_MIN] = { 0 };
	struct ethhdr *eth = (struct ethhdr *)frame;
	int fd;

	if (!device)
		return;
	fd = open_packet(SOCK_RAW, 0, device_index("barrier", device));
	memset(eth->h_dest, 0xff, ETH_ALEN);
	eth->h_source[0] = 2;
	eth->h_proto = htons(BARRIER_ETHERTYPE);
	if (send(fd, frame, sizeof(frame), 0) != (ssize_t)sizeof(frame))
		die("cannot send a barrier on %s: %s", device, strerror(errno));
	close(fd);
}

/* ---- udp-send ---- */

struct sources {
	struct address *v;
	size_t n, room;
};

static void sources_add(struct sources *s, const char *text, int family, const char *where)
{
	struct address a;

	if (!parse_address(text, &a))
		die("%s: \"%s\" is not an IP address", where, text);
	if (a.family != family)
		die("%s: \"%s\" and --to are not of one family", where, text);
	if (s->n == s->room) {
		s->room = s->room ? s->room * 2 : 1024;
		s->v = reallocarray(s->v, s->room, sizeof(*s->v));
		if (!s->v)
			die("no memory for the list of sources");
	}
	s->v[s->n++] = a;
}

static void sources_read(struct sources *s, const char *path, int family)
{
	FILE *in = fopen(path, "re");
	char line[256];

	if (!in)
		die("cannot read \"%s\": %s", path, strerror(errno));
	while (fgets(line, sizeof(line), in)) {
		line[strcspn(line, " \t\r\n#")] = 0;
		if (line[0])
			sources_add(s, line, family, path);
	}
	fclose(in);
	if (!s->n)
		die("\"%s\" lists no address", path);
}

/* The messages of one sendmmsg(), each with its own source address in a control message. */
struct send_batch {
	struct mmsghdr messages[SEND_BATCH];
	struct iovec iov[SEND_BATCH];
	struct payload payload[SEND_BATCH];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
	} control[SEND_BATCH];
};

static void set_source(struct msghdr *m, const struct address *source)
{
	struct in6_pktinfo info6 = { .ipi6_addr = source->ip.v6 };
	struct in_pktinfo info4 = { .ipi_spec_dst = source->ip.v4 };
	struct cmsghdr *c = m->msg_control;

	if (source->family == AF_INET) {
		c->cmsg_level = IPPROTO_IP;
		c->cmsg_type = IP_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info4));
		memcpy(CMSG_DATA(c), &info4, sizeof(info4));
		m->msg_controllen = CMSG_SPACE(sizeof(info4));
	} else {
		c->cmsg_level = IPPROTO_IPV6;
		c->cmsg_type = IPV6_PKTINFO;
		c->cmsg_len = CMSG_LEN(sizeof(info6));
		memcpy(CMSG_DATA(c), &info6, sizeof(info6));
		m->msg_controllen = CMSG_SPACE(sizeof(info6));
	}
}

static void fill_payload(struct payload *p, const struct address *source, uint64_t seq)
{
	p->magic = PAYLOAD_MAGIC;
	p->seq = seq;
	memcpy(p->source, source->ip.bytes, sizeof(p->source));
	p->sent_us = wall_us();
}

static void fill_batch(struct send_batch *b, unsigned int n, const struct sources *sources,
		       uint64_t seq, struct sockaddr_storage *to, socklen_t to_len)
{
	unsigned int i;

	for (i = 0; i < n; i++, seq++) {
		const struct address *source = &sources->v[seq % sources->n];

		fill_payload(&b->payload[i], source, seq);
		b->iov[i].iov_base = &b->payload[i];
		b->iov[i].iov_len = sizeof(b->payload[i]);
		b->messages[i].msg_hdr = (struct msghdr){
			.msg_name = to,
			.msg_namelen = to_len,
			.msg_iov = &b->iov[i],
			.msg_iovlen = 1,
			.msg_control = &b->control[i],
		};
		set_source(&b->messages[i].msg_hdr, source);
	}
}

static void sleep_until(uint64_t ns)
{
	struct timespec t = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static uint64_t send_all(int fd, const struct sources *sources, const struct address *to,
			 uint64_t count, bool loop, uint64_t rate)
{
	static struct send_batch batch;
	struct sockaddr_storage ss;
	socklen_t ss_len = address_sockaddr(to, &ss);
	uint64_t sent = 0, start = now_ns();
	unsigned int room = SEND_BATCH;

	/* At a low rate, one at a time: about a millisecond's worth goes out at once. */
	if (rate && rate / 1000 < room)
		room = rate < 2000 ? 1 : rate / 1000;

	while (!stop && (loop || sent < count)) {
		unsigned int n = room;
		int done;

		if (!loop && count - sent < n)
			n = count - sent;
		if (rate)
			sleep_until(start + sent / rate * NS_PER_S + sent % rate * NS_PER_S / rate);
		fill_batch(&batch, n, sources, sent, &ss, ss_len);
		done = sendmmsg(fd, batch.messages, n, 0);
		if (done > 0) {
			sent += done;
		} else if (errno == ENOBUFS || errno == EAGAIN) {
			sleep_until(now_ns() + NS_PER_MS);
		} else if (errno != EINTR) {
			char text[TEXT_MAX];

			address_text(&sources->v[sent % sources->n], text);
			die("cannot send from %s: %s", text, strerror(errno));
		}
	}
	return sent;
}

static int udp_send(const struct options *o)
{
	struct sources sources = { 0 };
	struct address to, any;
	uint64_t sent;
	int fd;

	parse_endpoint("to", o->to, &to);
	if (!o->from == !o->from_file)
		die("udp-send needs one of --from ADDR and --from-file LIST");
	if (o->from)
		sources_add(&sources, o->from, to.family, "--from");
	else
		sources_read(&sources, o->from_file, to.family);

	fd = open_socket(to.family, SOCK_DGRAM);
	set_transparent(fd, to.family);
	any = (struct address){ .family = to.family, .port = o->sport };
	bind_address(fd, &any);

	stay_on_one_cpu();
	sent = send_all(fd, &sources, &to, o->count ? o->count : sources.n, o->loop, o->rate);
	send_barrier(o->barrier);
	printf("sent %llu\n", (unsigned long long)sent);
	close(fd);
	free(sources.v);
	return 0;
}

/* ---- udp-recv ---- */

struct recv_batch {
	struct mmsghdr messages[RECV_BATCH];
	struct iovec iov[RECV_BATCH];
	struct payload payload[RECV_BATCH];
	struct sockaddr_in6 from[RECV_BATCH];
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(uint32_t))];
	} control[RECV_BATCH];
};

struct received {
	uint64_t datagrams;
	uint32_t overflow; /* that the socket had no room for: the kernel's own count */
};

static void note_overflow(struct msghdr *m, struct received *r)
{
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SO_RXQ_OVFL)
			memcpy(&r->overflow, CMSG_DATA(c), sizeof(r->overflow));
}

/* Take what is there now, and write a line for each: source, sequence, time it was sent. */
static void drain_udp(int fd, FILE *out, struct received *r)
{
	static struct recv_batch b;
	char text[TEXT_MAX];
	int i, n;

	for (;;) {
		for (i = 0; i < (int)RECV_BATCH; i++) {
			b.iov[i].iov_base = &b.payload[i];
			b.iov[i].iov_len = sizeof(b.payload[i]);
			b.messages[i].msg_hdr = (struct msghdr){
				.msg_name = &b.from[i],
				.msg_namelen = sizeof(b.from[i]),
				.msg_iov = &b.iov[i],
				.msg_iovlen = 1,
				.msg_control = &b.control[i],
				.msg_controllen = sizeof(b.control[i]),
			};
		}
		n = recvmmsg(fd, b.messages, RECV_BATCH, MSG_DONTWAIT, NULL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != EAGAIN)
			die("cannot receive: %s", strerror(errno));
		if (n <= 0)
			return;
		for (i = 0; i < n; i++) {
			const struct payload *p = &b.payload[i];
			struct address from;

			note_overflow(&b.messages[i].msg_hdr, r);
			if (b.messages[i].msg_len != sizeof(*p) || p->magic != PAYLOAD_MAGIC)
				continue;
			address_of_sockaddr(&b.from[i], &from);
			fprintf(out, "%s %llu %llu\n", address_text(&from, text),
				(unsigned long long)p->seq, (unsigned long long)p->sent_us);
			r->datagrams++;
		}
	}
}

/*
 * Milliseconds to poll for: not long, so that a signal just before it is seen soon. A deadline
 * that has passed ends the program.
 */
static int poll_time(const struct options *o, uint64_t start)
{
	uint64_t passed = (now_ns() - start) / NS_PER_MS;

	if (o->timeout_ms && passed >= o->timeout_ms) {
		fprintf(stderr, "traffic: no barrier within %llu ms\n",
			(unsigned long long)o->timeout_ms);
		exit(EXIT_NOT_REACHED);
	}
	return POLL_MS;
}

static int udp_recv(const struct options *o)
{
	struct pollfd fds[2] = { { .events = POLLIN }, { .fd = -1, .events = POLLIN } };
	struct received received = { 0 };
	uint64_t start = now_ns();
	bool last = false;
	FILE *out;

	fds[0].fd = open_server(SOCK_DGRAM, o->port);
	set_int(fds[0].fd, SOL_SOCKET, SO_RCVBUFFORCE, RECV_BUFFER, "SO_RCVBUFFORCE");
	set_int(fds[0].fd, SOL_SOCKET, SO_RXQ_OVFL, 1, "SO_RXQ_OVFL");
	if (o->barrier)
		fds[1].fd = open_packet(SOCK_RAW, BARRIER_ETHERTYPE,
					device_index("barrier", o->barrier));
	out = open_out(o->out);

	/* After the barrier, or the signal, once more: what came before it is in the queue. */
	while (!last) {
		if (poll(fds, 2, 0) == 0) {
			fflush(out);
			if (!stop && poll(fds, 2, poll_time(o, start)) < 0 && errno != EINTR)
				die("cannot poll: %s", strerror(errno));
		}
		last = stop || (fds[1].revents & POLLIN);
		drain_udp(fds[0].fd, out, &received);
	}
	close_out(out, o->out);
	printf("received %llu lost %u\n", (unsigned long long)received.datagrams,
	       received.overflow);
	return 0;
}

/* ---- TCP ---- */

/*
 * The client sends --bytes bytes and closes its side, the server answers with how many came. So
 * data crosses the filter, not only a handshake.
 */
#define TCP_CHUNK 65536
#define TCP_PATIENCE_MS 5000

static uint64_t tcp_serve_one(int fd)
{
	struct timeval patience = { .tv_sec = TCP_PATIENCE_MS / 1000 };
	static char chunk[TCP_CHUNK];
	uint64_t bytes = 0;
	ssize_t n;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	while ((n = read(fd, chunk, sizeof(chunk))) > 0)
		bytes += n;
	dprintf(fd, "%llu\n", (unsigned long long)bytes);
	return bytes;
}

static int tcp_serve(const struct options *o)
{
	int fd = open_server(SOCK_STREAM, o->port);
	struct sockaddr_in6 from;
	uint64_t served = 0;
	FILE *out;

	if (listen(fd, SOMAXCONN))
		die("cannot listen: %s", strerror(errno));
	out = open_out(o->out);
	while (!stop) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		socklen_t len = sizeof(from);
		char text[TEXT_MAX];
		struct address a;
		int peer;

		if (poll(&p, 1, POLL_MS) <= 0)
			continue;
		peer = accept4(fd, (struct sockaddr *)&from, &len, SOCK_CLOEXEC);
		if (peer < 0) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			die("cannot accept: %s", strerror(errno));
		}
		address_of_sockaddr(&from, &a);
		fprintf(out, "%s %llu\n", address_text(&a, text),
			(unsigned long long)tcp_serve_one(peer));
		fflush(out);
		close(peer);
		served++;
	}
	close_out(out, o->out);
	printf("served %llu\n", (unsigned long long)served);
	return 0;
}

static int wait_for(int fd, short events, uint64_t deadline)
{
	struct pollfd p = { .fd = fd, .events = events };
	uint64_t now = now_ns();
	int r;

	if (now >= deadline)
		return 0;
	r = poll(&p, 1, (deadline - now) / NS_PER_MS + 1);
	return r < 0 && errno == EINTR ? 0 : r;
}

__attribute__((noreturn)) static void not_reached(const struct address *to, const char *why)
{
	char text[TEXT_MAX];

	fprintf(stderr, "traffic: %s port %u: %s\n", address_text(to, text), to->port, why);
	exit(EXIT_NOT_REACHED);
}

static void tcp_connect_by(int fd, const struct address *to, uint64_t deadline)
{
	struct sockaddr_storage ss;
	socklen_t len = address_sockaddr(to, &ss), error_len = sizeof(int);
	int error = 0;

	if (!connect(fd, (struct sockaddr *)&ss, len))
		return;
	if (errno != EINPROGRESS)
		die("cannot connect: %s", strerror(errno));
	if (wait_for(fd, POLLOUT, deadline) <= 0)
		not_reached(to, "no connection in time");
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_len);
	if (error)
		not_reached(to, strerror(error));
}

static int tcp_connect(const struct options *o)
{
	uint64_t deadline, left = o->bytes, echoed;
	static char chunk[TCP_CHUNK];
	struct address to, from;
	char answer[32] = "";
	ssize_t n;
	int fd;

	parse_endpoint("to", o->to, &to);
	deadline = now_ns() + (o->timeout_ms ? o->timeout_ms : TCP_PATIENCE_MS) * NS_PER_MS;
	fd = open_socket(to.family, SOCK_STREAM | SOCK_NONBLOCK);
	if (o->from) {
		if (!parse_address(o->from, &from) || from.family != to.family)
			die("--from: \"%s\" is not an IP address of the family of --to", o->from);
		from.port = o->sport;
		set_transparent(fd, from.family);
		bind_address(fd, &from);
	}
	tcp_connect_by(fd, &to, deadline);
	while (left) {
		n = send(fd, chunk, left < sizeof(chunk) ? left : sizeof(chunk), MSG_NOSIGNAL);
		if (n > 0)
			left -= n;
		else if (errno != EAGAIN)
			not_reached(&to, strerror(errno));
		else if (wait_for(fd, POLLOUT, deadline) <= 0)
			not_reached(&to, "the data was not taken in time");
	}
	shutdown(fd, SHUT_WR);
	if (wait_for(fd, POLLIN, deadline) <= 0)
		not_reached(&to, "no answer in time");
	n = read(fd, answer, sizeof(answer) - 1);
	echoed = n > 0 ? strtoull(answer, NULL, 10) : UINT64_MAX;
	if (echoed != o->bytes)
		not_reached(&to, "the answer is not what was sent");
	printf("connected, %llu bytes\n", (unsigned long long)echoed);
	close(fd);
	return 0;
}

/* ---- raw frames ---- */

struct frame {
	uint8_t bytes[FRAME_MAX];
	size_t len;
};

static void frame_push(struct frame *f, const void *data, size_t len)
{
	if (f->len + len > sizeof(f->bytes))
		die("the frame is too long");
	memcpy(f->bytes + f->len, data, len);
	f->len += len;
}

static uint32_t sum16(const void *data, size_t len, uint32_t sum)
{
	const uint8_t *p = data;
	size_t i;

	for (i = 0; i + 1 < len; i += 2)
		sum += p[i] << 8 | p[i + 1];
	if (len & 1)
		sum += p[len - 1] << 8;
	return sum;
}

static uint16_t fold16(uint32_t sum)
{
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons(~sum);
}

static void push_ethernet(struct frame *f, const char *mac)
{
	struct ethhdr eth = { .h_source = { 2 } };
	unsigned int m[ETH_ALEN], i;

	memset(eth.h_dest, 0xff, ETH_ALEN);
	if (mac) {
		if (sscanf(mac, "%x:%x:%x:%x:%x:%x", &m[0], &m[1], &m[2], &m[3], &m[4], &m[5]) != 6)
			die("--mac: \"%s\" is not a MAC address", mac);
		for (i = 0; i < ETH_ALEN; i++)
			eth.h_dest[i] = m[i];
	}
	/* The ethertype follows with the tags. */
	frame_push(f, &eth, offsetof(struct ethhdr, h_proto));
}

/* "5,7": the outer tag first. The outermost has --tpid, those within are 802.1Q. */
static void push_tags(struct frame *f, const char *vlan, const char *tpid, uint16_t ethertype)
{
	uint16_t proto = htons(ETH_P_8021Q), tci;
	char *copy, *tag, *save = NULL;
	unsigned int n = 0;

	if (tpid && strcmp(tpid, "8021ad") == 0)
		proto = htons(ETH_P_8021AD);
	else if (tpid && strcmp(tpid, "8021q") != 0)
		die("--tpid: 8021q or 8021ad, not \"%s\"", tpid);

	copy = strdup(vlan ? vlan : "");
	if (!copy)
		die("no memory");
	for (tag = strtok_r(copy, ",", &save); tag; tag = strtok_r(NULL, ",", &save)) {
		if (++n > TAGS_MAX)
			die("--vlan: at most %u tags", TAGS_MAX);
		tci = htons(parse_number("vlan", tag, 4095));
		frame_push(f, &proto, sizeof(proto));
		frame_push(f, &tci, sizeof(tci));
		proto = htons(ETH_P_8021Q);
	}
	free(copy);
	ethertype = htons(ethertype);
	frame_push(f, &ethertype, sizeof(ethertype));
}

static void push_ip(struct frame *f, const struct address *from, const struct address *to,
		    size_t payload)
{
	if (from->family == AF_INET) {
		struct iphdr ip = {
			.version = 4,
			.ihl = sizeof(ip) / 4,
			.ttl = 64,
			.protocol = IPPROTO_UDP,
			.tot_len = htons(sizeof(ip) + payload),
			.saddr = from->ip.v4.s_addr,
			.daddr = to->ip.v4.s_addr,
		};

		ip.check = fold16(sum16(&ip, sizeof(ip), 0));
		frame_push(f, &ip, sizeof(ip));
	} else {
		struct ip6_hdr ip = {
			.ip6_src = from->ip.v6,
			.ip6_dst = to->ip.v6,
		};

		ip.ip6_flow = htonl(6u << 28);
		ip.ip6_plen = htons(payload);
		ip.ip6_nxt = IPPROTO_UDP;
		ip.ip6_hlim = 64;
		frame_push(f, &ip, sizeof(ip));
	}
}

static void push_udp(struct frame *f, const struct address *from, const struct address *to,
		     uint64_t seq)
{
	size_t address_len = from->family == AF_INET ? sizeof(from->ip.v4) : sizeof(from->ip.v6);
	struct udphdr udp = { .source = htons(from->port), .dest = htons(to->port) };
	struct payload p;
	size_t len = sizeof(udp) + sizeof(p);
	uint32_t sum;

	fill_payload(&p, from, seq);
	udp.len = htons(len);
	sum = sum16(from->ip.bytes, address_len, IPPROTO_UDP + len);
	sum = sum16(to->ip.bytes, address_len, sum);
	sum = sum16(&udp, sizeof(udp), sum);
	udp.check = fold16(sum16(&p, sizeof(p), sum));
	if (!udp.check)
		udp.check = 0xffff;
	frame_push(f, &udp, sizeof(udp));
	frame_push(f, &p, sizeof(p));
}

static int frame_send(const struct options *o)
{
	uint64_t i, count = o->count ? o->count : 1;
	struct address from, to;
	int fd;

	parse_endpoint("to", o->to, &to);
	if (!o->from || !parse_address(o->from, &from) || from.family != to.family)
		die("frame-send needs --from ADDR, of the family of --to");
	from.port = o->sport;
	fd = open_packet(SOCK_RAW, 0, device_index("dev", o->dev));
	stay_on_one_cpu();
	for (i = 0; i < count; i++) {
		struct frame f = { .len = 0 };

		push_ethernet(&f, o->mac);
		push_tags(&f, o->vlan, o->tpid, from.family == AF_INET ? ETH_P_IP : ETH_P_IPV6);
		push_ip(&f, &from, &to, sizeof(struct udphdr) + sizeof(struct payload));
		push_udp(&f, &from, &to, i);
		if (send(fd, f.bytes, f.len, 0) != (ssize_t)f.len)
			die("cannot send on %s: %s", o->dev, strerror(errno));
	}
	send_barrier(o->barrier);
	printf("sent %llu\n", (unsigned long long)count);
	close(fd);
	return 0;
}

/* ---- frame-recv ---- */

/* The tag that the kernel took out of the frame, if any. */
static int outer_tag(struct msghdr *m)
{
	struct tpacket_auxdata aux;
	struct cmsghdr *c;

	for (c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA)
			continue;
		memcpy(&aux, CMSG_DATA(c), sizeof(aux));
		if (aux.tp_status & TP_STATUS_VLAN_VALID)
			return aux.tp_vlan_tci & 0xfff;
	}
	return -1;
}

static uint16_t load16(const uint8_t *p)
{
	return p[0] << 8 | p[1];
}

/*
 * Write "ADDR VLAN": the source address of the IP packet in a frame, and its VLAN ids with a comma
 * between, "-" without any. True when the frame is the barrier.
 */
static bool write_frame(FILE *out, const uint8_t *p, size_t len, int tag, uint64_t *frames)
{
	char tags[TEXT_MAX] = "", text[TEXT_MAX];
	size_t at = offsetof(struct ethhdr, h_proto), used = 0;
	struct address a = { 0 };

	if (tag >= 0)
		used += snprintf(tags, sizeof(tags), "%d", tag);
	while (at + 6 <= len && used + 6 < sizeof(tags) &&
	       (load16(p + at) == ETH_P_8021Q || load16(p + at) == ETH_P_8021AD)) {
		used += snprintf(tags + used, sizeof(tags) - used, "%s%u", used ? "," : "",
				 load16(p + at + 2) & 0xfffu);
		at += 4;
	}
	if (at + 2 > len)
		return false;
	p += at + 2;
	len -= at + 2;
	switch (load16(p - 2)) {
	case BARRIER_ETHERTYPE:
		return true;
	case ETH_P_IP:
		if (len < sizeof(struct iphdr))
			return false;
		a.family = AF_INET;
		memcpy(&a.ip, p + offsetof(struct iphdr, saddr), sizeof(a.ip.v4));
		break;
	case ETH_P_IPV6:
		if (len < sizeof(struct ip6_hdr))
			return false;
		a.family = AF_INET6;
		memcpy(&a.ip, p + offsetof(struct ip6_hdr, ip6_src), sizeof(a.ip.v6));
		break;
	default:
		return false;
	}
	fprintf(out, "%s %s\n", address_text(&a, text), used ? tags : "-");
	(*frames)++;
	return false;
}

static int frame_recv(const struct options *o)
{
	int fd = open_packet(SOCK_RAW, ETH_P_ALL, device_index("barrier", o->barrier));
	uint64_t frames = 0, start = now_ns();
	bool done = false;
	FILE *out;

	set_int(fd, SOL_PACKET, PACKET_AUXDATA, 1, "PACKET_AUXDATA");
	set_int(fd, SOL_SOCKET, SO_RCVBUFFORCE, RECV_BUFFER, "SO_RCVBUFFORCE");
	out = open_out(o->out);
	while (!stop && !done) {
		uint8_t frame[FRAME_MAX];
		union {
			struct cmsghdr align;
			char bytes[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
		} control;
		struct sockaddr_ll from;
		struct iovec iov = { frame, sizeof(frame) };
		struct msghdr m = {
			.msg_name = &from,
			.msg_namelen = sizeof(from),
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		struct pollfd p = { .fd = fd, .events = POLLIN };
		ssize_t n;

		if (poll(&p, 1, poll_time(o, start)) <= 0)
			continue;
		n = recvmsg(fd, &m, MSG_DONTWAIT);
		if (n < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			die("cannot receive: %s", strerror(errno));
		}
		if (from.sll_pkttype != PACKET_OUTGOING)
			done = write_frame(out, frame, n, outer_tag(&m), &frames);
	}
	close_out(out, o->out);
	printf("received %llu\n", (unsigned long long)frames);
	return 0;
}

/* ---- the rest ---- */

static const struct verb {
	const char *name;
	int (*run)(const struct options *o);
	const char *usage;
} verbs[] = {
	{ "udp-send", udp_send,
	  "--to ADDR:PORT (--from ADDR | --from-file LIST) [--count N | --loop] [--rate PPS]\n"
	  "             [--sport PORT] [--barrier DEV]" },
	{ "udp-recv", udp_recv, "--port PORT --out FILE [--barrier DEV [--timeout MS]]" },
	{ "tcp-connect", tcp_connect,
	  "--to ADDR:PORT [--from ADDR] [--sport PORT] [--bytes N] [--timeout MS]" },
	{ "tcp-serve", tcp_serve, "--port PORT --out FILE" },
	{ "frame-send", frame_send,
	  "--dev DEV --from ADDR --to ADDR:PORT [--vlan ID[,ID...]] [--tpid 8021q|8021ad]\n"
	  "             [--mac MAC] [--sport PORT] [--count N] [--barrier DEV]" },
	{ "frame-recv", frame_recv, "--barrier DEV --out FILE [--timeout MS]" },
};

#define VERBS (sizeof(verbs) / sizeof(verbs[0]))

__attribute__((noreturn)) static void usage(void)
{
	size_t i;

	for (i = 0; i < VERBS; i++)
		fprintf(stderr, "%s traffic %s %s\n", i ? "      " : "usage:", verbs[i].name,
			verbs[i].usage);
	exit(EXIT_ERROR);
}

enum option_kind { TEXT, NUMBER, FLAG };

#define OPTION(name, field, kind, max)                                                             \
	{                                                                                          \
		name, kind, offsetof(struct options, field), max                                   \
	}

static const struct option_spec {
	const char *name;
	enum option_kind kind;
	size_t offset;
	uint64_t max;
} specs[] = {
	OPTION("to", to, TEXT, 0),
	OPTION("from", from, TEXT, 0),
	OPTION("from-file", from_file, TEXT, 0),
	OPTION("out", out, TEXT, 0),
	OPTION("dev", dev, TEXT, 0),
	OPTION("barrier", barrier, TEXT, 0),
	OPTION("mac", mac, TEXT, 0),
	OPTION("vlan", vlan, TEXT, 0),
	OPTION("tpid", tpid, TEXT, 0),
	OPTION("count", count, NUMBER, UINT64_MAX),
	OPTION("rate", rate, NUMBER, NS_PER_S),
	OPTION("timeout", timeout_ms, NUMBER, INT32_MAX),
	OPTION("bytes", bytes, NUMBER, UINT64_MAX),
	OPTION("port", port, NUMBER, UINT16_MAX),
	OPTION("sport", sport, NUMBER, UINT16_MAX),
	OPTION("loop", loop, FLAG, 0),
};

#define SPECS (sizeof(specs) / sizeof(specs[0]))

static const struct option_spec *find_option(const char *arg)
{
	size_t i;

	for (i = 0; strncmp(arg, "--", 2) == 0 && i < SPECS; i++)
		if (strcmp(arg + 2, specs[i].name) == 0)
			return &specs[i];
	die("there is no option \"%s\"", arg);
}

static void parse_options(char **args, struct options *o)
{
	for (; *args; args++) {
		const struct option_spec *spec = find_option(*args);
		void *field = (char *)o + spec->offset;

		if (spec->kind == FLAG) {
			*(bool *)field = true;
			continue;
		}
		if (!*++args)
			die("--%s wants a value", spec->name);
		if (spec->kind == TEXT)
			*(const char **)field = *args;
		else
			*(uint64_t *)field = parse_number(spec->name, *args, spec->max);
	}
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = on_signal };
	struct options options = { 0 };
	size_t i;

	if (argc < 2)
		usage();
	parse_options(argv + 2, &options);
	/* No SA_RESTART: a signal ends the wait. */
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	for (i = 0; i < VERBS; i++)
		if (strcmp(argv[1], verbs[i].name) == 0)
			return verbs[i].run(&options);
	usage();
}
