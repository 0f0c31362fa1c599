// SPDX-License-Identifier: GPL-2.0-only
/*
 * Names of filters. A name becomes a directory, a word on a command line and a unit of systemd: it
 * must not lead out of its directory, look like an option, or need quoting.
 */
#include "unit.h"

static void accept(const char *name)
{
	struct xbloom_error err;

	if (xbloom_name_check(name, &err))
		fail_msg("%s", err.text);
}

static void refuse(const char *name)
{
	struct xbloom_error err;
	int ret;

	unit_error_poison(&err);
	ret = xbloom_name_check(name, &err);
	if (ret != -EINVAL)
		fail_msg("name \"%s\": %d, expected -EINVAL", name, ret);
	unit_assert_one_line(&err);
	assert_int_equal(xbloom_name_check(name, NULL), -EINVAL);
}

static void plain_names_are_accepted(void **state)
{
	static const char *const names[] = { "a",     "Z",	   "0",	    "9",	   "block",
					     "drop4", "dns-allow", "a_b_c", "Blocklist-2", "1-",
					     "a--b",  "x_",	   "0x1f" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(names); i++)
		accept(names[i]);
}

static void name_has_under_64_bytes(void **state)
{
	char name[1001];

	(void)state;
	memset(name, 'n', sizeof(name));
	name[XBLOOM_NAME_MAX - 1] = '\0';
	accept(name);
	name[XBLOOM_NAME_MAX - 1] = 'n';
	name[XBLOOM_NAME_MAX] = '\0';
	refuse(name);
	name[XBLOOM_NAME_MAX] = 'n';
	name[sizeof(name) - 1] = '\0';
	refuse(name);
	refuse("");
}

static void name_does_not_lead_out_of_its_directory(void **state)
{
	static const char *const names[] = { ".",  "..",  "../x", "/",	  "/etc", "a/b",
					     "a/", "./a", "a/..", "a\\b", ".a",	  "a.b" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(names); i++)
		refuse(names[i]);
}

static void name_starts_with_a_letter_or_digit(void **state)
{
	static const char *const names[] = { "-",  "-a", "--help", "_",	  "_a",
					     "+a", "-1", "__",	   "-_a", "+" };
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(names); i++)
		refuse(names[i]);
}

/* One by one, in the middle of a name: letters, digits, '-' and '_' and no other byte. */
static void every_other_byte_is_refused(void **state)
{
	unsigned int c;

	(void)state;
	for (c = 1; c < 256; c++) {
		char name[] = "a?b";

		name[1] = (char)c;
		if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
		    c == '-' || c == '_')
			accept(name);
		else
			refuse(name);
	}
	refuse("caf\xc3\xa9");
	refuse("name\n");
	refuse(" name");
	refuse("name ");
	refuse("two words");
	refuse("%s%n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_names_are_accepted),
		cmocka_unit_test(name_has_under_64_bytes),
		cmocka_unit_test(name_does_not_lead_out_of_its_directory),
		cmocka_unit_test(name_starts_with_a_letter_or_digit),
		cmocka_unit_test(every_other_byte_is_refused),
	};

	return cmocka_run_group_tests_name("names", tests, NULL, NULL);
}
