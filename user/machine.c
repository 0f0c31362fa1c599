// SPDX-License-Identifier: GPL-2.0-only OR MIT
/*
 * What the machine itself lives by, in the network namespace of the caller: the addresses of its
 * devices, the gateways of its routes, and the resolvers that it asks. By rtnetlink (libmnl), and by
 * resolv.conf. Devices that stand upon others (VLANs, bridges, bonds) are told of, too: what comes
 * for their addresses comes through a device below, which may be the one with the filter.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/nexthop.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include <libmnl/libmnl.h>

#include "internal.h"

/* Both, as the first may name only the local stub of the second's keeper. */
static const char *const resolver_files[] = {
	"/etc/resolv.conf",
	"/run/systemd/resolve/resolv.conf",
};

/* What the kernel puts into one message of a dump at most. */
#define DUMP_BYTES 32768

struct dumping {
	struct xbloom_machine *m;
	struct xbloom_error *err;
	int ret;
};

static int push(struct xbloom_machine *m, const struct xbloom_machine_addr *a,
		struct xbloom_error *err)
{
	struct xbloom_machine_addr *v;
	size_t i;

	for (i = 0; i < m->n; i++)
		if (!memcmp(&m->v[i], a, sizeof(*a)))
			return 0;
	v = reallocarray(m->v, m->n + 1, sizeof(*v));
	if (!v)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	m->v = v;
	m->v[m->n++] = *a;
	return 0;
}

static int push_address(struct dumping *d, uint32_t why, unsigned int ifindex, uint8_t family,
			const void *addr, unsigned int plen)
{
	struct xbloom_machine_addr a;

	/* All of it, padding too: they are compared as memory. */
	memset(&a, 0, sizeof(a));
	a.why = why;
	a.ifindex = ifindex;
	if (family != AF_INET && family != AF_INET6)
		return 0;
	a.flow.family = family == AF_INET ? XBLOOM_FAMILY_V4 : XBLOOM_FAMILY_V6;
	a.flow.plen = (uint8_t)plen;
	memcpy(&a.flow.src, addr,
	       family == AF_INET ? sizeof(struct in_addr) : sizeof(struct in6_addr));
	return push(d->m, &a, d->err);
}

static unsigned int width(uint8_t family)
{
	return family == AF_INET ? XBLOOM_PLEN4_HOST : XBLOOM_PLEN6_HOST;
}

static int on_address(const struct nlmsghdr *h, void *ctx)
{
	const struct ifaddrmsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *attr, *local = NULL, *address = NULL;
	struct dumping *d = ctx;

	if (h->nlmsg_type != RTM_NEWADDR)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, h, sizeof(*m))
	{
		if (mnl_attr_get_type(attr) == IFA_LOCAL)
			local = attr;
		else if (mnl_attr_get_type(attr) == IFA_ADDRESS)
			address = attr;
	}
	/* On a point-to-point link IFA_ADDRESS is the peer's. */
	if (!local)
		local = address;
	if (local && (m->ifa_family == AF_INET || m->ifa_family == AF_INET6) &&
	    mnl_attr_get_payload_len(local) >= width(m->ifa_family) / 8)
		d->ret = push_address(d, XBLOOM_EXEMPT_OWN, m->ifa_index, m->ifa_family,
				      mnl_attr_get_payload(local), m->ifa_prefixlen);
	return d->ret ? MNL_CB_ERROR : MNL_CB_OK;
}

static void push_gateway(struct dumping *d, unsigned int ifindex, uint8_t family,
			 const struct nlattr *attr)
{
	if (!d->ret && (family == AF_INET || family == AF_INET6) &&
	    mnl_attr_get_payload_len(attr) >= width(family) / 8)
		d->ret = push_address(d, XBLOOM_EXEMPT_GATEWAY, ifindex, family,
				      mnl_attr_get_payload(attr), width(family));
}

/* RTA_VIA: a gateway of the other family, behind its family. */
static void push_via(struct dumping *d, unsigned int ifindex, const struct nlattr *attr)
{
	const struct rtvia *via = mnl_attr_get_payload(attr);
	unsigned int len = mnl_attr_get_payload_len(attr);

	if (!d->ret && len >= sizeof(*via) &&
	    (via->rtvia_family == AF_INET || via->rtvia_family == AF_INET6) &&
	    len >= sizeof(*via) + width((uint8_t)via->rtvia_family) / 8)
		d->ret = push_address(d, XBLOOM_EXEMPT_GATEWAY, ifindex, (uint8_t)via->rtvia_family,
				      via->rtvia_addr, width((uint8_t)via->rtvia_family));
}

/* Each next hop is a header with attributes of its own. */
static void push_multipath(struct dumping *d, uint8_t family, const struct nlattr *attr)
{
	const char *at = mnl_attr_get_payload(attr);
	size_t left = mnl_attr_get_payload_len(attr);

	while (left >= sizeof(struct rtnexthop)) {
		const struct rtnexthop *hop = (const void *)at;
		if (hop->rtnh_len < sizeof(*hop) || (size_t)hop->rtnh_len > left)
			return;
		mnl_attr_for_each_payload((const struct nlattr *)(const void *)RTNH_DATA(hop),
					  hop->rtnh_len - (int)sizeof(*hop))
		{
			if (mnl_attr_get_type(attr) == RTA_GATEWAY)
				push_gateway(d, (unsigned int)hop->rtnh_ifindex, family, attr);
			else if (mnl_attr_get_type(attr) == RTA_VIA)
				push_via(d, (unsigned int)hop->rtnh_ifindex, attr);
		}
		if ((size_t)RTNH_ALIGN(hop->rtnh_len) >= left)
			return;
		left -= (size_t)RTNH_ALIGN(hop->rtnh_len);
		at += RTNH_ALIGN(hop->rtnh_len);
	}
}

static int on_route(const struct nlmsghdr *h, void *ctx)
{
	const struct rtmsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *attr, *gateway = NULL, *via = NULL, *multipath = NULL;
	struct dumping *d = ctx;
	unsigned int ifindex = 0;

	if (h->nlmsg_type != RTM_NEWROUTE)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, h, sizeof(*m))
	{
		switch (mnl_attr_get_type(attr)) {
		case RTA_GATEWAY:
			gateway = attr;
			break;
		case RTA_VIA:
			via = attr;
			break;
		case RTA_MULTIPATH:
			multipath = attr;
			break;
		case RTA_OIF:
			ifindex = mnl_attr_get_u32(attr);
			break;
		}
	}
	if (gateway)
		push_gateway(d, ifindex, m->rtm_family, gateway);
	if (via)
		push_via(d, ifindex, via);
	if (multipath)
		push_multipath(d, m->rtm_family, multipath);
	return d->ret ? MNL_CB_ERROR : MNL_CB_OK;
}

/* Next hops that routes name by their number; such a route need not say its gateway itself. */
static int on_nexthop(const struct nlmsghdr *h, void *ctx)
{
	const struct nhmsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *attr, *gateway = NULL;
	struct dumping *d = ctx;
	unsigned int ifindex = 0;

	if (h->nlmsg_type != RTM_NEWNEXTHOP)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, h, sizeof(*m))
	{
		if (mnl_attr_get_type(attr) == NHA_GATEWAY)
			gateway = attr;
		else if (mnl_attr_get_type(attr) == NHA_OIF)
			ifindex = mnl_attr_get_u32(attr);
	}
	if (gateway)
		push_gateway(d, ifindex, m->nh_family, gateway);
	return d->ret ? MNL_CB_ERROR : MNL_CB_OK;
}

/* ---- devices upon devices ---- */

static int push_link(struct xbloom_machine *m, unsigned int lower, unsigned int upper,
		     struct xbloom_error *err)
{
	struct xbloom_machine_link *v = reallocarray(m->links, m->n_links + 1, sizeof(*v));

	if (!v)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	m->links = v;
	m->links[m->n_links++] = (struct xbloom_machine_link){ lower, upper };
	return 0;
}

/*
 * Whether the frames of a device of this kind come through the one that IFLA_LINK names, with its
 * addresses for all to see. (Of a veth that is the other end, of a tunnel what carries it.)
 */
static bool comes_through_link(const struct nlattr *linkinfo)
{
	static const char *const kinds[] = { "vlan", "macvlan", "macvtap", "ipvlan", "ipvtap" };
	const struct nlattr *attr;
	size_t i;

	mnl_attr_for_each_nested(attr, linkinfo)
	{
		if (mnl_attr_get_type(attr) != IFLA_INFO_KIND)
			continue;
		for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			if (!strcmp(mnl_attr_get_str(attr), kinds[i]))
				return true;
	}
	return false;
}

static int on_link(const struct nlmsghdr *h, void *ctx)
{
	const struct ifinfomsg *m = mnl_nlmsg_get_payload(h);
	const struct nlattr *attr, *linkinfo = NULL;
	unsigned int link = 0, master = 0;
	struct dumping *d = ctx;
	bool elsewhere = false;

	if (h->nlmsg_type != RTM_NEWLINK)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, h, sizeof(*m))
	{
		switch (mnl_attr_get_type(attr)) {
		case IFLA_LINK:
			link = mnl_attr_get_u32(attr);
			break;
		case IFLA_LINK_NETNSID:
			elsewhere = true;
			break;
		case IFLA_MASTER:
			master = mnl_attr_get_u32(attr);
			break;
		case IFLA_LINKINFO:
			linkinfo = attr;
			break;
		}
	}
	if (master)
		d->ret = push_link(d->m, (unsigned int)m->ifi_index, master, d->err);
	if (!d->ret && link && !elsewhere && linkinfo && comes_through_link(linkinfo))
		d->ret = push_link(d->m, link, (unsigned int)m->ifi_index, d->err);
	return d->ret ? MNL_CB_ERROR : MNL_CB_OK;
}

static bool is_one_of(unsigned int ifindex, const unsigned int *ifindexes, size_t n)
{
	size_t i;

	for (i = 0; i < n; i++)
		if (ifindexes[i] == ifindex)
			return true;
	return false;
}

int xbloom_machine_above(const struct xbloom_machine *m, const unsigned int *ifindexes, size_t n,
			 unsigned int **out, size_t *n_out, struct xbloom_error *err)
{
	unsigned int *all = calloc(n + m->n_links + 1, sizeof(*all));
	size_t i, l, used = 0;

	if (!all)
		return xbloom_fail(err, -ENOMEM, "out of memory");
	for (i = 0; i < n; i++)
		all[used++] = ifindexes[i];
	/* What is found is looked on from in its turn. */
	for (i = 0; i < used; i++)
		for (l = 0; l < m->n_links; l++)
			if (m->links[l].lower == all[i] && !is_one_of(m->links[l].upper, all, used))
				all[used++] = m->links[l].upper;
	*out = all;
	*n_out = used;
	return 0;
}

/* ---- all of it ---- */

static int dump(struct mnl_socket *socket, uint16_t type, size_t header, mnl_cb_t fn,
		struct dumping *d)
{
	char buf[DUMP_BYTES];
	struct nlmsghdr *h = mnl_nlmsg_put_header(buf);
	struct rtgenmsg *family;
	ssize_t got;
	int ret = MNL_CB_OK;

	h->nlmsg_type = type;
	h->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	h->nlmsg_seq = type;
	/* Each kind of question has a header of its own, whose first byte is the family. */
	family = mnl_nlmsg_put_extra_header(h, header);
	family->rtgen_family = AF_UNSPEC;
	if (mnl_socket_sendto(socket, h, h->nlmsg_len) < 0)
		return xbloom_fail_errno(d->err, -errno, "cannot ask for this machine's addresses");
	while (ret > MNL_CB_STOP) {
		got = mnl_socket_recvfrom(socket, buf, sizeof(buf));
		if (got < 0)
			return xbloom_fail_errno(d->err, -errno,
						 "cannot read this machine's addresses");
		ret = mnl_cb_run(buf, (size_t)got, type, mnl_socket_get_portid(socket), fn, d);
	}
	if (d->ret)
		return d->ret;
	return ret < 0 ? xbloom_fail_errno(d->err, -errno, "cannot read this machine's addresses")
		       : 0;
}

static bool is_loopback(uint8_t family, const void *addr)
{
	const uint8_t *first = addr;

	return family == AF_INET ? *first == 127
				 : IN6_IS_ADDR_LOOPBACK((const struct in6_addr *)addr);
}

/* "nameserver ADDRESS", an IPv6 one perhaps with a zone. */
static int read_resolvers(const char *path, struct dumping *d)
{
	char line[256], text[INET6_ADDRSTRLEN + IF_NAMESIZE];
	unsigned char addr[sizeof(struct in6_addr)];
	FILE *file = fopen(path, "re");
	int ret = 0;

	if (!file)
		return 0;
	while (!ret && fgets(line, sizeof(line), file)) {
		uint8_t family;

		if (sscanf(line, " nameserver %61s", text) != 1)
			continue;
		text[strcspn(text, "%")] = '\0';
		family = strchr(text, ':') ? AF_INET6 : AF_INET;
		if (inet_pton(family, text, addr) == 1 && !is_loopback(family, addr))
			ret = push_address(d, XBLOOM_EXEMPT_RESOLVER, 0, family, addr,
					   width(family));
	}
	fclose(file);
	return ret;
}

static int read_once(struct xbloom_machine *m, struct xbloom_error *err)
{
	struct mnl_socket *socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	struct dumping d = { .m = m, .err = err };
	size_t i;
	int ret;

	*m = (struct xbloom_machine){ 0 };
	if (!socket || mnl_socket_bind(socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		ret = xbloom_fail_errno(err, -errno, "cannot ask for this machine's addresses");
		goto out;
	}
	ret = dump(socket, RTM_GETADDR, sizeof(struct ifaddrmsg), on_address, &d);
	if (!ret)
		ret = dump(socket, RTM_GETROUTE, sizeof(struct rtmsg), on_route, &d);
	if (!ret)
		ret = dump(socket, RTM_GETLINK, sizeof(struct ifinfomsg), on_link, &d);
	if (!ret) {
		ret = dump(socket, RTM_GETNEXTHOP, sizeof(struct nhmsg), on_nexthop, &d);
		/* Kernels before 5.3 know none. */
		if (ret == -EOPNOTSUPP)
			ret = 0;
	}
	for (i = 0; i < sizeof(resolver_files) / sizeof(resolver_files[0]) && !ret; i++)
		ret = read_resolvers(resolver_files[i], &d);
out:
	if (socket)
		mnl_socket_close(socket);
	if (ret)
		xbloom_machine_free(m);
	return ret;
}

/* A router's table changes all the time, and a dump that it changed under is made again. */
#define READ_ATTEMPTS 20

int xbloom_machine_read(struct xbloom_machine *m, struct xbloom_error *err)
{
	int i, ret = -EINTR;

	for (i = 0; i < READ_ATTEMPTS && ret == -EINTR; i++)
		ret = read_once(m, err);
	return ret;
}

void xbloom_machine_free(struct xbloom_machine *m)
{
	free(m->v);
	free(m->links);
	*m = (struct xbloom_machine){ 0 };
}
