-- Point reads by primary key, uniform over a range of keys: the hot set of a table that is much larger.
sysbench.cmdline.options = {
    first_id = {"Lowest key of the hot set", 1},
    last_id = {"Highest key of the hot set", 1},
}

function thread_init()
    connection = sysbench.sql.driver():connect()
end

function thread_done()
    connection:disconnect()
end

function event()
    local id = sysbench.rand.uniform(sysbench.opt.first_id, sysbench.opt.last_id)
    connection:query(string.format("SELECT note FROM pages WHERE id = %d", id))
end
