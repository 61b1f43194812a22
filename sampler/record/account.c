/* The arithmetic of account.h. */
#include "sampler/record/account.h"

static uint64_t since(const struct sp_account *account, uint64_t time)
{
	return account->on && time > account->since ? time - account->since : 0;
}

static uint64_t cpu_at(const struct sp_account *account, uint64_t time)
{
	return account->cpu_ns + since(account, time);
}

void sp_account_init(struct sp_account *account, bool from_start)
{
	*account = (struct sp_account){ .row_known = from_start };
}

void sp_account_in(struct sp_account *account, uint64_t time)
{
	/* Without the record of its going the time in between is not known; it is taken as spent off the CPU. */
	account->since = time;
	account->on = true;
}

uint64_t sp_account_out(struct sp_account *account, uint64_t time)
{
	uint64_t ns = since(account, time);
	account->cpu_ns += ns;
	account->on = false;
	return ns;
}

bool sp_account_row(struct sp_account *account, uint64_t time, uint64_t covers_ns, uint64_t *ret_delta)
{
	uint64_t delta = cpu_at(account, time) - account->row_ns;
	*ret_delta = delta < covers_ns ? delta : covers_ns;
	account->row_ns += *ret_delta;
	return account->row_known;
}

bool sp_account_sample(struct sp_account *account, uint64_t time, uint64_t covers_ns, uint64_t *ret_delta)
{
	if (!account->on) {
		/* Its switch record is missing: nothing is known of the time before. */
		account->since = time;
		account->on = true;
		if (!account->row_known) {
			account->row_known = true;
			account->row_ns = account->covered_ns = account->cpu_ns;
			*ret_delta = 0;
			return false;
		}
	}
	uint64_t now = cpu_at(account, time);
	*ret_delta = now - account->row_ns;
	account->row_ns = now;
	account->covered_ns += covers_ns;
	bool known = account->row_known;
	account->row_known = true;
	return known;
}

uint64_t sp_account_uncovered(struct sp_account *account, uint64_t time, uint64_t interval_ns, uint64_t next_ns)
{
	uint64_t now = cpu_at(account, time);
	uint64_t covered = account->covered_ns + next_ns;
	if (!interval_ns || now < covered || now - covered < interval_ns)
		return 0;
	uint64_t count = (now - covered) / interval_ns;
	account->covered_ns += count * interval_ns;
	return count;
}

void sp_account_forgive(struct sp_account *account, uint64_t time, uint64_t ns)
{
	uint64_t now = cpu_at(account, time);
	uint64_t uncovered = now > account->covered_ns ? now - account->covered_ns : 0;
	account->covered_ns += ns < uncovered ? ns : uncovered;
}
